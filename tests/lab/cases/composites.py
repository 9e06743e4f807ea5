"""Every healthy shape in few clusters: what is odd about several of them at once, where none hides another."""

from __future__ import annotations

from dataclasses import fields, replace

from tests.lab.cases.healthy import SHAPES
from tests.lab.faults import together
from tests.lab.harness.shape import Shape


def merged(*names: str) -> Shape:
    """One cluster with all that is odd about the shapes of these names; it is as large as the largest.

    Raises ValueError where two of them want different things, KeyError for a name that is none.
    """
    known = {shape.name: shape for shape in SHAPES}
    shapes, usual = [known[name] for name in names], Shape("")
    whole = replace(usual, name=" + ".join(names))
    for field in fields(Shape):
        odd = [value for shape in shapes if (value := getattr(shape, field.name)) != getattr(usual, field.name)]
        if field.name in ("name", "setup") or not odd:
            continue
        if field.name == "hosts" and all(isinstance(value, int) and value > 1 for value in odd):
            odd = [max(odd)]
        if any(value != odd[0] for value in odd):
            raise ValueError(f"{whole.name}: which {field.name}, {odd}?")
        whole = replace(whole, **{field.name: odd[0]})
    return replace(whole, setup=together(*(shape.setup for shape in shapes if shape.setup is not None)))


COMPOSITES = [
    merged(
        "1 node",
        "127.0.1.1 on one node alone",
        "localhost is ::1 alone, without IPv6",
        "TORCH_DISTRIBUTED_DEBUG=DETAIL, 4 ranks of one node",
    ),
    merged("two nodes on one host", "variables that are no UTF-8"),
    merged("two nodes on one host, by name"),
    merged(
        "2 nodes, ranks unset",
        "3 nodes, ranks unset",
        "master started last, ranks unset",
        "IPv6 only",
        "jumbo frames everywhere",
    ),
    merged(
        "2 nodes by PET_*",
        "firewalls that let the peers in",
        "iptables that block another port",
        "MASTER_PORT of another job on one node",
    ),
    merged(
        "RANK by hand",
        "RANK by hand, 3 hosts",
        "a name that means every node, RANK by hand",
        "a huge /etc/hosts",
        "/proc is not mounted on node 1",
    ),
    merged("torchrun static", "a token everywhere, torchrun", "different numbers of ranks", "172.16/12"),
    merged("torchrun c10d", "192.168", "a limit of 256 open files", "a limit of new connections that no job reaches"),
    merged("torch.distributed.launch", "host names with dots", "IPv4 and IPv6"),
    merged("3 nodes", "a token everywhere", "odd interface names", "several interfaces", "a clock 2 s ahead"),
    merged("bonds and VLANs", "172.17 addresses that do route", "a name that means every node"),
    merged(
        "settings that need not be alike",
        "master started last",
        "no entries for the peers",
        "no name server at all",
        "no name server at all, peers unknown",
    ),
    merged(
        "2 nodes",
        "docker0 beside eth0",
        "a second network that leads nowhere",
        "GLOO_SOCKET_IFNAME of one letter, which torch ignores",
        "node 1 is 12 s late",
        "master and port by variables",
    ),
    merged("gloo on a second network", "docker0 on one", "--init-method tcp://", "FIN and RST are dropped"),
    merged("two nodes on each of two hosts", "gloo on two networks"),
    merged("not root", "--init-method file://, shared", "a card without ARP, and ARP as kube-proxy has it"),
    merged(
        "--init-method file://, empty",
        "127.0.1.1, and GLOO_SOCKET_IFNAME set rightly",
        "two next hops that both answer",
    ),
    merged("IPv6 only, master by number"),
    merged("one rendezvous id, c10d", "two cards in one network, and a second address"),
    merged("a busy machine", "a busy machine, 4 nodes"),
    merged("4 nodes", "5 nodes of 1 rank", "TORCH_DISTRIBUTED_DEBUG=DETAIL"),
    merged("8 nodes"),
    merged("a Service's address"),
    merged("a Service's address, 3 nodes"),
    merged("an ssh tunnel to MASTER_PORT"),
    merged("an ssh tunnel to MASTER_PORT, torchrun"),
    merged(
        "a Service's address, and a token everywhere",
        "Python without docstrings, with warnings as errors, in ASCII",
        "no standard input, and no signal of children that end",
    ),
]
"""Each shape is in exactly one of them (tests/lab/test_table.py)."""
FURTHER = {
    "a Service's address",
    "an ssh tunnel to MASTER_PORT, torchrun",
    "two nodes on one host, by name",
    "two nodes on each of two hosts + gloo on two networks",
    "IPv6 only, master by number",
    "8 nodes",
    "torch.distributed.launch + host names with dots + IPv4 and IPv6",
    "one rendezvous id, c10d + two cards in one network, and a second address",
    "a busy machine + a busy machine, 4 nodes",
}
"""Those of which another one has the most: only run where all are asked for."""
