"""gloo picked an address that the other nodes cannot reach.

What you see
------------
The store works, then init_process_group() with gloo hangs or fails on one side with

    connectFullMesh failed with [...] connect [192.168.5.10]:PORT: Network is unreachable

(or `Connection refused`, `No route to host`), while the other side prints nothing.

Why it happens
--------------
gloo advertises one address: that of GLOO_SOCKET_IFNAME, else the first one that the host's own name resolves to. On
hosts with several networks that may be a management network that is not routed to the others.

Fix
---
Name the interface that reaches the other nodes: `export GLOO_SOCKET_IFNAME=eth0`, on each node its own.

When it is harmless
-------------------
Of two nodes the one with the numerically larger address connects to the other. If only the address of that one cannot
be reached the job runs, by luck; the finding is then a warning. Not used at all with backend="nccl".

See also
--------
network/wrong-interface, gloo/loopback-address, gloo/interface-not-found
"""

from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Line,
    Node,
    by_luck,
    gloo_dials,
    gloo_errors_name,
    is_loopback,
    link_graph,
    primary_interface,
    rank_count,
    wrongly_picked,
)

SEVERITY = "fail"
LOG = (
    Line(
        "connectFullMesh failed",
        "(?:timed out|No route|unreachable|Connect timeout)",
        shows="symptom",
        why="a firewall between the nodes that blocks all but the master port shows the same",
        unless=r"remote=\[?(?:127\.|172\.17\.|169\.254|fe80)",
    ),
    Line("connectFullMesh failed", shows="symptom", why="a peer that died before it listened shows the same"),
)
MATTERS = "by luck: gloo connects from the larger address to the smaller, and here nobody connects to this one"
PREVENTS = "peers connected"
LOOKS_AT = ("host.gloo", "everyone")
FOLLOWS = ("gloo/loopback-address", "gloo/interface-not-found", "network/ipv6-mismatch")


def judge(cluster: Cluster) -> Iterator[Finding]:
    elsewhere = {pick.node for pick in wrongly_picked(cluster)}  # network/wrong-interface says more of these
    bad = [
        (edge.source, edge.target, edge.link)
        for edge in link_graph(cluster).misled
        if "gloo" in edge.link.use and edge.target not in elsewhere
    ]
    if not bad:
        return
    lost = {(target, link.address): None for _, target, link in bad}
    blamed = [node for node in cluster.nodes if any(node is target for target, _ in lost)]
    picked = ", ".join(f"{address} ({_interface(node, address)}) on {node.name}" for node, address in lost)
    yield Finding.about(
        blamed,
        f"gloo picked {picked}, which other nodes cannot reach; another address of the same nodes they can.",
        links=dict.fromkeys((node.name, target.name) for node, target, _ in bad),
        severity="fail"
        if any(gloo_dials(node, target, link.address) or nobodys(target, link.address) for node, target, link in bad)
        or gloo_errors_name(cluster, {k.address for _, _, k in bad})
        else "warn",
        matters=by_luck(cluster),
        evidence=(
            *(line for node, address in lost for line in choice(node, address)),
            *(f"{n.name} to {t.name}: {k.address}:{k.port} {k.outcome.replace('-', ' ')}" for n, t, k in bad),
        ),
        fixes=(fix(node, [address for target, address in lost if target is node]) for node in blamed),
    )


def nobodys(node: Node, address: str) -> bool:
    """Return whether the address is that of no interface of the node (net.ipv4.ip_nonlocal_bind lets gloo listen
    there all the same), and its own ranks do not meet there either."""
    own = node.network.own_port
    tried = own is not None and own.address == address and not own.answered
    return tried and rank_count(node) > 1 and bool(node.interfaces) and address not in node.addresses


def choice(node: Node, address: str) -> Iterator[str]:
    picked = node.host.gloo
    if picked is None:
        return
    if picked.reason == "variable":
        why = f"by GLOO_SOCKET_IFNAME={picked.variable}"
    else:
        why = f"the first address of its own name {node.host.own_name.name}".rstrip()
    taken = f"{address} on {_interface(node, address)}"
    yield f"{node.name}: gloo takes {taken}, {why}; it is reached at {node.reached_at}"


def fix(node: Node, lost: list[str]) -> Fix:
    interface = primary_interface(node)
    if len(node.gloo_addresses) > 1:
        names = [node.interface_of(address) or "" for address in node.gloo_addresses if address not in lost]
        text = f"On {node.name}, leave out the interface that the others do not reach, and name as many on each node."
        return Fix.on(node, text, env={"GLOO_SOCKET_IFNAME": ",".join(names) or interface})
    if interface is None:
        return Fix.on(node, f"On {node.name}, set GLOO_SOCKET_IFNAME to the interface that reaches the others.")
    if any(node.interface_of(address) == interface for address in lost):
        return by_name(node, interface)
    text = f"On {node.name}, tell gloo the interface that reaches the other nodes."
    return Fix.on(node, text, env={"GLOO_SOCKET_IFNAME": interface})


def by_name(node: Node, interface: str) -> Fix:
    """Its own name leads to the right address of an interface, of which gloo takes the first where it is told to take
    the interface; then the variable must go, and that is all where the name means that address already."""
    picked, own = node.host.gloo, node.host.own_name
    told = picked is not None and picked.reason == "variable"
    env: dict[str, str | None] = {"GLOO_SOCKET_IFNAME": None} if told else {}
    means = next((address for address in own.addresses if address in node.addresses or is_loopback(address)), None)
    if told and means is not None and means == node.reached_at:
        text = f"On {node.name}, unset GLOO_SOCKET_IFNAME: gloo then takes {means}, which its own name means."
        return Fix.on(node, text, env=env)
    text = f"let its own name mean {node.reached_at}, by which {interface} is reached (/etc/hosts)."
    if told:
        text = f"unset GLOO_SOCKET_IFNAME, which leads to the first address of {interface}, and {text}"
    return Fix.on(node, f"On {node.name}, {text}", env=env)


def _interface(node: Node, address: str) -> str:
    return node.interface_of(address) or "no interface of it"
