"""NCCL uses an interface that the other nodes cannot reach.

## What you see
The store and gloo work, and the first collective of NCCL fails with

    socketStartConnect: connect to 172.31.1.1<45383> failed : Network is unreachable

(ncclSystemError; or `No route to host`, `Connection refused`, `Connection timed out`), or hangs.

Found for real on an NVIDIA H200 (driver 580.159, torch 2.11, NCCL 2.28.9).

## Why it happens
Over sockets NCCL sends data on all interfaces that NCCL_SOCKET_IFNAME allows. If it is unset, these are all except
loopback and docker's. NCCL advertises a private interface to the other ranks like any other, and they connect to it.
Examples are a management card, a bridge of virtual machines, and a direct cable between two hosts.

## Fix
On each node, set it to the interface that reaches the other nodes: `export NCCL_SOCKET_IFNAME=eth0`.

## Confirm with
`ip route get 10.0.0.11` on each node, with the address of another node; it names the interface to use.

## When it is harmless
If one node alone has such an interface, all_reduce, all_gather and reduce_scatter pass, because 2.28.9 uses as many
interfaces as both sides have. all_to_all fails, and so do send() and recv(), of which it consists. With InfiniBand
only the first interface is used, for the bootstrap.

## See also
gloo/interface-unreachable, network/wrong-interface, nccl/interface-not-found, network/no-route
"""

import re
from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Line,
    Node,
    RankFacts,
    gpus,
    link_graph,
    names_of,
    primary_interface,
    together,
    wrongly_picked,
)

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOOKS_AT = ("host.nccl", "everyone")
FOLLOWS = ("nccl/interface-not-found", "network/ipv6-mismatch")
LOG = (
    Line(
        "socketStartConnect: ",
        r"socketStartConnect: [Cc]onnect to [\w.:%]{2,60}<\d{1,5}> failed ?: Network is unreachable",
    ),
)
CONNECT = re.compile(r"[Cc]onnect to (?P<address>[\w.:%]{2,60}?)<\d{1,5}> (?:failed|returned)")
"""Error of NCCL's src/misc/socket.cc about a failed connection to a peer, from 2.8 on."""
LINK_LOCAL = "fe80:"
FAMILY = "NCCL_SOCKET_FAMILY"
SHOWN = 6


def judge(cluster: Cluster) -> Iterator[Finding]:
    reported = {(pick.node, pick.address) for pick in wrongly_picked(cluster) if pick.backend == "nccl"}
    bad = {**by_links(cluster), **by_duplicates(cluster), **by_warnings(cluster)}
    lost = {place: lines for place, lines in bad.items() if place not in reported}  # by network/wrong-interface
    if not lost:
        return
    nodes = [node for node in cluster.nodes if any(node is owner for owner, _ in lost)]
    picked = together(f"{address} ({node.interface_of(address)}) of {node.name}" for node, address in lost)
    yield Finding.about(
        nodes,
        f"NCCL uses {picked}, which other nodes cannot reach{passed_clause(cluster)}.",
        evidence=(*(line for lines in lost.values() for line in lines[:1]), *(choice_evidence(node) for node in nodes)),
        fixes=(fix(node) for node in nodes),
    )


def by_links(cluster: Cluster) -> dict[tuple[Node, str], list[str]]:
    """Return NCCL's bootstrap addresses that failed, with evidence; none if NCCL formed its group."""
    if gpus.nccl_made(cluster.nodes):
        return {}
    lost: dict[tuple[Node, str], list[str]] = {}
    for edge in link_graph(cluster).misled:
        node, address = edge.target, edge.link.address
        if "nccl" in edge.link.use and node.gpus and gpus.wants_gpus(node):
            outcome = edge.link.outcome.replace("-", " ")
            line = f"{edge.source.name} to {node.name}: {address}:{edge.link.port} {outcome}"
            lost.setdefault((node, address), []).append(line)
    return lost


def by_warnings(cluster: Cluster) -> dict[tuple[Node, str], list[str]]:
    """Return the addresses to which NCCL reports failed connections, with its warnings, unless their interface is the
    one that reaches their node."""
    lost: dict[tuple[Node, str], list[str]] = {}
    for node in cluster.nodes:
        for rank in failed(node):
            for warning in rank.nccl.warnings if rank.nccl is not None else ():
                if (match := CONNECT.search(warning)) is None:
                    continue
                for owner in owners(cluster, node, match["address"]):
                    line = f"{node.name}: rank {rank.rank}: {warning}"
                    lost.setdefault((owner, match["address"]), []).append(line)
    return lost


def by_duplicates(cluster: Cluster) -> dict[tuple[Node, str], list[str]]:
    """Return the addresses that NCCL uses on several hosts while its group fails: each host reaches itself there."""
    having: dict[str, list[Node]] = {}
    for node in cluster.nodes:
        logs = [rank.nccl for rank in failed(node) if rank.nccl is not None and rank.nccl.network == "Socket"]
        for device in dict.fromkeys(card for log in logs for card in log.devices):
            name, _, address = device.partition(":")
            if name != primary_interface(node) and not address.startswith(LINK_LOCAL):
                having.setdefault(address, []).append(node)
    lost: dict[tuple[Node, str], list[str]] = {}
    for address, nodes in having.items():
        if len({node.host_key for node in nodes}) > 1:
            for node in nodes:
                lost[node, address] = [f"{names_of(nodes)} all have {address}: a connection to it reaches its own host"]
    return lost


def failed(node: Node) -> list[RankFacts]:
    """Return the ranks of the node with a failed NCCL group."""
    return [rank for rank in node.facts.ranks if any(s.stage == "nccl" and s.status != "ok" for s in rank.stages)]


def passed_clause(cluster: Cluster) -> str:
    """Return a clause about the collectives that passed, if exactly one kind failed."""
    ranks = [rank for node in cluster.nodes for rank in failed(node)]
    details = [stage.detail for rank in ranks for stage in rank.stages if stage.stage == "nccl"]
    names = {str(detail.get("failed") or "") for detail in details if not detail.get("killed")}
    if len(names) != 1 or not all(names):
        return ""
    passed = next((detail["passed"] for detail in details if isinstance(detail.get("passed"), list)), ["others"])
    return f"; {together(names)}, send() and recv() fail, {together(map(str, passed))} pass"


def owners(cluster: Cluster, source: Node, address: str) -> list[Node]:
    """Return the nodes of other hosts that have the address on an interface that does not reach them."""
    bare = address.partition("%")[0]
    return [
        node
        for node in cluster.nodes
        if node.host_key != source.host_key
        and (interface := node.interface_of(bare)) is not None
        and primary_interface(node) not in (None, interface)
        and node.reached_at != bare
    ]


def choice_evidence(node: Node) -> str:
    """Return as evidence what NCCL uses on the node, and the address that reaches it."""
    devices = next((rank.nccl.devices for rank in node.facts.ranks if rank.nccl and rank.nccl.devices), ())
    choice = node.host.nccl
    named = f" by NCCL_SOCKET_IFNAME={choice.variable}" if choice is not None and choice.variable else ""
    named += f" with {FAMILY}={family}" if (family := node.variables.get(FAMILY)) else ""
    used = together(devices[:SHOWN]) or (choice.address if choice is not None else "") or "none"
    return (
        f"{node.name}: NCCL uses {used}{named}; other nodes reach it at {node.reached_at} ({primary_interface(node)})"
    )


def fix(node: Node) -> Fix:
    interface = primary_interface(node)
    if interface is None:
        return Fix.on(
            node,
            f"On {node.name}, set NCCL_SOCKET_IFNAME to the interface in `ip route get` of another node's address.",
        )
    if (family := node.variables.get(FAMILY)) and not has_family(node, interface, family):
        text = (
            f"On {node.name}, unset {FAMILY}: {interface}, which reaches the other nodes, has no address of that "
            "family."
        )
        return Fix.on(node, text, env={FAMILY: None})
    text = f"On {node.name}, set NCCL_SOCKET_IFNAME to the interface that reaches the other nodes."
    return Fix.on(node, text, env={"NCCL_SOCKET_IFNAME": interface})


def has_family(node: Node, interface: str, family: str) -> bool:
    """Return whether the interface has an address of this family: AF_INET or AF_INET6; NCCL ignores other values."""
    addresses = [address for card in node.interfaces if card.name == interface for address in card.addresses]
    wanted = {"AF_INET": False, "AF_INET6": True}.get(family)
    return wanted is None or any((":" in address) == wanted for address in addresses)
