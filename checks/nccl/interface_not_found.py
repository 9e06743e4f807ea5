"""NCCL_SOCKET_IFNAME names no interface.

## What you see
`NCCL WARN Bootstrap : no socket interface found`, `no socket interface found`,
`family N is neither AF_INET(2) nor AF_INET6(10)`.

Found for real on an NVIDIA H200 (driver 580.159, torch 2.11, NCCL 2.28.9).

## Why it happens
The value matches no interface on that node; names differ between hosts. From NCCL 2.28 on, an interface that is down
or has no carrier does not count. A value that worked with an older NCCL may then fail.

## Fix
Set it to an interface that every node has, or a prefix of it: `export NCCL_SOCKET_IFNAME=eth0`. Or
`unset NCCL_SOCKET_IFNAME`.

## Confirm with
`ip -br address` on every node.

## When it is harmless
Never.

## See also
gloo/interface-not-found, network/wrong-interface
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus, names_of, primary_interface, together

SEVERITY = "fail"
LOOKS_AT = ("host.nccl",)
PREVENTS = "nccl group formed"
LOG = (
    Line(("no socket interface found", "No socket interface found", "NET/Socket : no interface found"), shows="cause"),
    Line("no usable listening interface found"),
    Line("No IP interface found"),
    Line(
        "NCCL_SOCKET_IFNAME",
        r"\b(?:[Nn]o |Could not find|not found).{0,80}NCCL_SOCKET_IFNAME|NCCL_SOCKET_IFNAME.{0,80}\b(?:not found|no "
        r"interface)",
    ),
    Line(
        "Socket creation failed : Address family",
        r"WARN (?:Net : |ncclSocket\w{1,20}: )?Socket creation failed",
        shows="symptom",
        why="a node without any interface shows the same; so does one without IPv6 when the others use IPv6",
    ),
    Line(
        ("No usable listening interface found", "_NET_IFNAME"),
        "No usable listening interface found|no device found (?:matching|after excluding) .{1,200}verify NCCL_OOB",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if value(node) and node.gpus and gpus.wants_gpus(node)]
    if bad:
        yield Finding.about(
            bad,
            f"NCCL_SOCKET_IFNAME={together(dict.fromkeys(map(value, bad)))} names no "
            f"interface{missing_property(bad)} on "
            f"{names_of(bad)}.",
            evidence=(evidence(node) for node in bad),
            fixes=(fix for node in bad for fix in fixes(node)),
        )


def value(node: Node) -> str:
    """Return the value that matches no interface of the node; empty if it matches one."""
    choice = node.host.nccl
    return (choice.variable or "") if choice is not None and choice.reason == "not-found" else ""


def missing_property(bad: list[Node]) -> str:
    """Return the missing property if interfaces of that name exist: NCCL uses running ones with an address."""
    prefixes = {node: tuple(name.strip("=^") for name in value(node).split(",")) for node in bad}
    matching = [card for node, names in prefixes.items() for card in node.interfaces if card.name.startswith(names)]
    return " that is up and has an address" if matching else ""


def evidence(node: Node) -> str:
    present = (f"{i.name} ({', '.join(i.addresses)}{'' if i.up else ', down'})" for i in node.interfaces)
    version = f" (NCCL {node.identity.nccl})" if node.identity.nccl else ""
    return f"{node.name}: NCCL_SOCKET_IFNAME={value(node)!r}{version}; interfaces: {together(present)}"


def fixes(node: Node) -> Iterator[Fix]:
    if interface := primary_interface(node):
        yield Fix.on(
            node, f"On {node.name}, set NCCL_SOCKET_IFNAME to {interface}.", env={"NCCL_SOCKET_IFNAME": interface}
        )
    yield Fix.on(
        node,
        f"{'Or unset it' if interface else 'Unset NCCL_SOCKET_IFNAME'} on {node.name}; NCCL then chooses one.",
        option=2 if interface else 1,
        env={"NCCL_SOCKET_IFNAME": None},
    )
