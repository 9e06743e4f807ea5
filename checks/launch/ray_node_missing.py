"""A program that uses Ray finds no Ray node of its own.

## What you see
`ray.init(address=...)`, or an engine that calls it, repeats

    Can't find a `node_ip_address.json` file from /tmp/ray/session_...

and ends after a minute. Newer versions of Ray end with `No node info found matching attributes`.

## Why it happens
A driver needs a raylet on its own host, in its own container, with the same /tmp/ray. That the head node can be
reached is not enough. The program was started on a host that did not join, or in a second container of a host that did.
Or Ray takes another of the host's addresses than the one its node was started with.

## Fix
Join first, where the program runs: `ray start --address=HEAD:6379` on the same host and in the same container, with
`--num-gpus=0` if it shall give no GPUs. On a host with several addresses, pass --node-ip-address.

Or submit the program to the cluster: `ray job submit --address=http://HEAD:8265 -- python train.py`.

## Confirm with
`ray status` where the program runs finds the cluster without an address; `ls /tmp/ray` has its session.

## When it is harmless
The node of this host starts a moment later than the program.

## See also
launch/ray-token, environment/engine-address, network/engine-server-unreachable
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "plan agreed"
NEXT = ("the Ray node of this host", "ray status")
LOG = (
    Line("A ray instance hasn", r"node_ip_address\.json` file from .{1,400} for \d+ seconds\. A ray instance hasn"),
    Line("No node info found matching attributes", "attributes: .{0,400} when trying to resolve node to connect to"),
    Line(
        "Have you started Ray inst",
        r"node_ip_address\.json` file from .{1,400} Have you started Ray inst",
        shows="symptom",
        why="Ray looks for a minute, and the node may start in this time",
    ),
    Line("we cannot find a local Raylet with the same address", shows="hint", why="Ray uses another node if it can"),
    Line(("Ray runtime started.", "Connected to Ray cluster."), shows="noise", why="the node is there by then"),
)
