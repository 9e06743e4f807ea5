"""gloo cannot form its process group.

## What you see
init_process_group() with gloo raises on one side, usually `connectFullMesh failed`, and prints nothing on the other.
gloo prints the port with its two bytes swapped; reports show it corrected.

## Why it happens
The facts match no more specific check. The evidence lists the address that each rank advertises, and the errors. If
all addresses were reached before, a firewall or NAT between the nodes may drop idle connections or limit their number.

## Fix
Set GLOO_SOCKET_IFNAME on each node to the interface that reaches the other nodes: `export GLOO_SOCKET_IFNAME=eth0`.

## Confirm with
`ip route get 10.0.0.11` on each node, with the address of another node; it names the interface to use.

## When it is harmless
With backend="nccl", which forms no gloo group; the finding is then a warning.

## See also
gloo/loopback-address, gloo/interface-unreachable, mesh/peer-ports-blocked
"""

import re
from dataclasses import replace

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, failed_ranks, failed_stage_finding, together

SEVERITY = "fail"
LOG = (
    Line(
        ("gloo/transport", "gloo/rendezvous", "gloo/common"),
        shows="symptom",
        why="a peer that died and a peer that cannot be reached show the same error",
        unless=r"Timed out waiting \d+ ?ms for (?:recv|send)|Connection closed by peer|Read error",  # formed
    ),
    Line(
        " is NOT connected to",
        r"[Rr]ank \d+ is NOT connected to",
        shows="symptom",
        why="a peer that died and a peer that cannot be reached show the same error",
    ),
)
PREVENTS = "gloo group formed"
SYMPTOM_OF = "gloo group formed"
CHECK_ADDRESSES = (
    "Set GLOO_SOCKET_IFNAME to an interface that every other node reaches. "
    "Confirm with: `ping -c 1 ADDRESS` from every node, for each advertised address."
)
RAISE_IDLE_TIMEOUT = (
    "Raise the idle timeout and the connection limit of the firewall or NAT between the nodes: every measured link "
    "carried data. Confirm with: `sysctl net.netfilter.nf_conntrack_tcp_timeout_established` on the firewall."
)
RESUME = (
    "Resume distdoctor on {}, then start the check again: the ranks of the other nodes waited for it. "
    "Confirm with: `ps -eo pid,stat,args | grep '[d]istdoctor'` (state T is stopped)."
)
TIMED_OUT = re.compile(r"(?i)did not return|wait timeout")
WAITED = re.compile(rf"{TIMED_OUT.pattern}|another rank failed")


def judge(cluster: Cluster) -> Iterator[Finding]:
    stopped = [node.name for node in cluster.nodes if node.stood_still]
    for finding in failed_stage_finding(cluster, "gloo", "gloo cannot form its process group", advice(cluster)):
        advertised = tuple(f"{node.name} advertises {node.gloo_address}" for node in cluster.nodes if node.gloo_address)
        fixes = (Fix(RESUME.format(together(stopped)), tuple(stopped)),) if stopped else finding.fixes
        yield replace(finding, evidence=(*finding.evidence, *advertised), fixes=fixes)


def advice(cluster: Cluster) -> str:
    """Return the text of the fix: the path between the nodes if every address was reached before and ranks timed out,
    with the facts of all nodes; else the addresses."""
    complete = len({node.host_key for node in cluster.nodes}) > 1 and len(cluster.nodes) >= (cluster.plan.nnodes or 0)
    reached = all(node.mesh.good and not node.mesh.bad for node in cluster.nodes)
    errors = [failed.stage.error or "" for failed in failed_ranks(cluster, "gloo")]
    waited = all(map(WAITED.search, errors)) and any(map(TIMED_OUT.search, errors))
    return RAISE_IDLE_TIMEOUT if complete and reached and waited else CHECK_ADDRESSES
