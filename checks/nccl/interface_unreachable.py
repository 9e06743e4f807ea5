"""NCCL takes an interface that the other nodes do not reach.

What you see
------------
The store works, gloo does, and the first collective of NCCL fails with

    socketStartConnect: connect to 172.31.1.1<45383> failed : Network is unreachable

(ncclSystemError; or `No route to host`, `Connection refused`, `Connection timed out`), or hangs.

Found for real on an NVIDIA H200 (driver 580.159, torch 2.11, NCCL 2.28.9).

Why it happens
--------------
Over sockets NCCL sends data on all interfaces that NCCL_SOCKET_IFNAME allows; unset, these are all but loopback and
docker's. One that only its own host has, or that leads to another network on each host (a management card, a bridge of
virtual machines, a card between two boxes), is told to the other ranks like the others, and they connect to it.

Fix
---
Name the interface that reaches the other nodes: `export NCCL_SOCKET_IFNAME=eth0`, on each node its own (ip -br
address).

When it is harmless
-------------------
Where one node alone has such an interface, all_reduce, all_gather and reduce_scatter pass (2.28.9 takes as many
interfaces as both sides have), and all_to_all fails, and with it the send() and recv() of which it is made. With
InfiniBand only the first one is used, for the ranks to find each other.

See also
--------
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
"""What NCCL's src/misc/socket.cc says of a connection to a peer that fails, from 2.8 on."""
LINK_LOCAL = "fe80:"
FAMILY = "NCCL_SOCKET_FAMILY"
SHOWN = 6


def judge(cluster: Cluster) -> Iterator[Finding]:
    told = {(pick.node, pick.address) for pick in wrongly_picked(cluster) if pick.backend == "nccl"}
    found = {**by_links(cluster), **doubled(cluster), **by_warnings(cluster)}
    lost = {place: lines for place, lines in found.items() if place not in told}  # by network/wrong-interface
    if not lost:
        return
    nodes = [node for node in cluster.nodes if any(node is owner for owner, _ in lost)]
    picked = together(f"{address} ({node.interface_of(address)}) of {node.name}" for node, address in lost)
    yield Finding.about(
        nodes,
        f"NCCL takes {picked}, which other nodes do not reach{only(cluster)}; another address of the same nodes they "
        "do.",
        evidence=(*(line for lines in lost.values() for line in lines[:1]), *(taken(node) for node in nodes)),
        fixes=(fix(node) for node in nodes),
    )


def by_links(cluster: Cluster) -> dict[tuple[Node, str], list[str]]:
    """The addresses by which NCCL's ranks find each other that were tried in vain, and how; none where NCCL's own group
    came together."""
    if gpus.nccl_made(cluster.nodes):
        return {}
    lost: dict[tuple[Node, str], list[str]] = {}
    for edge in link_graph(cluster).misled:
        node, address = edge.target, edge.link.address
        if "nccl" in edge.link.use and node.gpus and gpus.wants_gpus(node):
            outcome = edge.link.outcome.replace("-", " ")
            said = f"{edge.source.name} to {node.name}: {address}:{edge.link.port} {outcome}"
            lost.setdefault((node, address), []).append(said)
    return lost


def by_warnings(cluster: Cluster) -> dict[tuple[Node, str], list[str]]:
    """The addresses to which NCCL says that it could not connect, of interfaces other than the one by which their nodes
    are reached, and what it said."""
    lost: dict[tuple[Node, str], list[str]] = {}
    for node in cluster.nodes:
        for rank in failed(node):
            for warning in rank.nccl.warnings if rank.nccl is not None else ():
                if (said := CONNECT.search(warning)) is None:
                    continue
                for owner in owners(cluster, node, said["address"]):
                    line = f"{node.name}: rank {rank.rank}: {warning}"
                    lost.setdefault((owner, said["address"]), []).append(line)
    return lost


def doubled(cluster: Cluster) -> dict[tuple[Node, str], list[str]]:
    """The addresses that NCCL takes on several hosts, where its group fails: each host reaches itself there."""
    having: dict[str, list[Node]] = {}
    for node in cluster.nodes:
        logs = [rank.nccl for rank in failed(node) if rank.nccl is not None and rank.nccl.network == "Socket"]
        for device in dict.fromkeys(one for log in logs for one in log.devices):
            name, _, address = device.partition(":")
            if name != primary_interface(node) and not address.startswith(LINK_LOCAL):
                having.setdefault(address, []).append(node)
    lost: dict[tuple[Node, str], list[str]] = {}
    for address, nodes in having.items():
        if len({node.host_key for node in nodes}) > 1:
            for node in nodes:
                lost[node, address] = [f"{names_of(nodes)} all have {address}: who connects to it reaches itself"]
    return lost


def failed(node: Node) -> list[RankFacts]:
    """Its ranks whose NCCL group came to nothing."""
    return [rank for rank in node.facts.ranks if any(one.stage == "nccl" and one.status != "ok" for one in rank.stages)]


def only(cluster: Cluster) -> str:
    """That some collectives passed, where all that failed is one of them."""
    ranks = [rank for node in cluster.nodes for rank in failed(node)]
    told = [stage.detail for rank in ranks for stage in rank.stages if stage.stage == "nccl"]
    names = {str(one.get("failed") or "") for one in told if not one.get("killed")}
    if len(names) != 1 or not all(names):
        return ""
    passed = next((one["passed"] for one in told if isinstance(one.get("passed"), list)), ["others"])
    return f": {together(names)} fails, as send() and recv() would, and {together(map(str, passed))} pass"


def owners(cluster: Cluster, source: Node, address: str) -> list[Node]:
    """The nodes of other hosts that have the address, on an interface by which nobody reaches them."""
    bare = address.partition("%")[0]
    return [
        node
        for node in cluster.nodes
        if node.host_key != source.host_key
        and (interface := node.interface_of(bare)) is not None
        and primary_interface(node) not in (None, interface)
        and node.reached_at != bare
    ]


def taken(node: Node) -> str:
    """Return what NCCL took there, and by what the node is reached."""
    devices = next((rank.nccl.devices for rank in node.facts.ranks if rank.nccl and rank.nccl.devices), ())
    choice = node.host.nccl
    named = f" by NCCL_SOCKET_IFNAME={choice.variable}" if choice is not None and choice.variable else ""
    named += f" with {FAMILY}={family}" if (family := node.variables.get(FAMILY)) else ""
    said = together(devices[:SHOWN]) or (choice.address if choice is not None else "") or "none"
    return f"{node.name}: NCCL takes {said}{named}; it is reached at {node.reached_at} ({primary_interface(node)})"


def fix(node: Node) -> Fix:
    interface = primary_interface(node)
    if interface is None:
        return Fix.on(node, f"On {node.name}, set NCCL_SOCKET_IFNAME to the interface that reaches the others.")
    if (family := node.variables.get(FAMILY)) and not has_family(node, interface, family):
        text = f"On {node.name}, unset {FAMILY}: {interface}, which reaches the other nodes, has no such address."
        return Fix.on(node, text, env={FAMILY: None})
    text = f"On {node.name}, name the interface that reaches the other nodes."
    return Fix.on(node, text, env={"NCCL_SOCKET_IFNAME": interface})


def has_family(node: Node, interface: str, family: str) -> bool:
    """Return whether the interface has an address of this family: AF_INET or AF_INET6; NCCL passes over all else."""
    addresses = [address for one in node.interfaces if one.name == interface for address in one.addresses]
    wanted = {"AF_INET": False, "AF_INET6": True}.get(family)
    return wanted is None or any((":" in address) == wanted for address in addresses)
