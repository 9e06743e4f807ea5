"""gloo picked an address that the other nodes cannot reach.

## What you see
The store works, then init_process_group() with gloo hangs or fails on one side with

    connectFullMesh failed with [...] connect [192.168.5.10]:PORT: Network is unreachable

(or `Connection refused`, `No route to host`), while the other side prints nothing.

## Why it happens
gloo advertises one address: that of GLOO_SOCKET_IFNAME, else the first one that the hostname resolves to. On a host
with several networks this may be a management network that the other nodes have no route to.

## Fix
On each node, set GLOO_SOCKET_IFNAME to the interface that reaches the other nodes: `export GLOO_SOCKET_IFNAME=eth0`.

## Confirm with
`ip route get 10.0.0.11` on each node, with the address of another node; it names the interface to use.

## When it is harmless
Of two nodes, the one with the numerically larger address connects to the other. The job runs if only the larger
address is unreachable; the finding is then a warning. With backend="nccl" the address is not used.

## See also
network/wrong-interface, gloo/loopback-address, gloo/interface-not-found
"""

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Iterator,
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
        why="a firewall between the nodes that blocks all but the master port shows the same error",
        unless=r"remote=\[?(?:127\.|172\.17\.|169\.254|fe80)",
    ),
    Line("connectFullMesh failed", shows="symptom", why="a peer that died before it listened shows the same error"),
)
MATTERS = "gloo connects from the larger address to the smaller, so no node connects to this one now"
PREVENTS = "peers connected"
LOOKS_AT = ("host.gloo", "everyone")
FOLLOWS = ("gloo/loopback-address", "gloo/interface-not-found", "network/ipv6-mismatch")


def judge(cluster: Cluster) -> Iterator[Finding]:
    explained = {pick.node for pick in wrongly_picked(cluster)}  # network/wrong-interface is more specific
    bad = [
        (edge.source, edge.target, edge.link)
        for edge in link_graph(cluster).misled
        if "gloo" in edge.link.use and edge.target not in explained
    ]
    if not bad:
        return
    lost = {(target, link.address): None for _, target, link in bad}
    blamed = [node for node in cluster.nodes if any(node is target for target, _ in lost)]
    picked = ", ".join(f"{address} ({_interface(node, address)}) on {node.name}" for node, address in lost)
    yield Finding.about(
        blamed,
        f"gloo picked {picked}, which other nodes cannot reach; they reach another address there.",
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
    """Return whether no interface of the node has the address, and the node's own ranks do not reach it either.

    net.ipv4.ip_nonlocal_bind lets gloo listen at such an address."""
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
        why = f"the first address of its hostname {node.host.own_name.name}".rstrip()
    taken = f"{address} on {_interface(node, address)}"
    yield f"{node.name}: gloo binds {taken}, {why}; other nodes reach {node.name} at {node.reached_at}"


def fix(node: Node, lost: list[str]) -> Fix:
    interface = primary_interface(node)
    if len(node.gloo_addresses) > 1:
        names = [node.interface_of(address) or "" for address in node.gloo_addresses if address not in lost]
        text = (
            f"On {node.name}, remove the unreachable interface from GLOO_SOCKET_IFNAME; every node must name the same "
            "number of interfaces."
        )
        return Fix.on(node, text, env={"GLOO_SOCKET_IFNAME": ",".join(names) or interface})
    if interface is None:
        text = f"On {node.name}, set GLOO_SOCKET_IFNAME to the interface that reaches the other nodes."
        return Fix.on(node, f"{text} Confirm with: `ip -br address`.")
    if any(node.interface_of(address) == interface for address in lost):
        return by_name(node, interface)
    text = f"On {node.name}, set GLOO_SOCKET_IFNAME to the interface that reaches the other nodes."
    return Fix.on(node, text, env={"GLOO_SOCKET_IFNAME": interface})


def by_name(node: Node, interface: str) -> Fix:
    """Return the fix by the hostname, for an interface of which gloo would bind a wrong first address.

    gloo binds the first address of the interface that the variable names, so the variable is unset."""
    picked, own = node.host.gloo, node.host.own_name
    by_variable = picked is not None and picked.reason == "variable"
    env: dict[str, str | None] = {"GLOO_SOCKET_IFNAME": None} if by_variable else {}
    resolved = next((address for address in own.addresses if address in node.addresses or is_loopback(address)), None)
    if by_variable and resolved is not None and resolved == node.reached_at:
        text = f"On {node.name}, unset GLOO_SOCKET_IFNAME; gloo then binds {resolved}, the address of the hostname."
        return Fix.on(node, text, env=env)
    text = f"give its hostname the address {node.reached_at} of {interface} in /etc/hosts."
    if by_variable:
        text = f"unset GLOO_SOCKET_IFNAME (gloo binds the first address of {interface}), and {text}"
    return Fix.on(node, f"On {node.name}, {text}", env=env)


def _interface(node: Node, address: str) -> str:
    return node.interface_of(address) or "on none of its interfaces"
