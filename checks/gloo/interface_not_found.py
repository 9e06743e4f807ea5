"""GLOO_SOCKET_IFNAME names no interface of this node.

What you see
------------
init_process_group() with gloo raises at once, on every rank of the node

    RuntimeError: Unable to find address for: ib0

Why it happens
--------------
The variable was copied from another cluster, interface names differ between the nodes, or it uses `^` or `=`, which
only NCCL_SOCKET_IFNAME understands. gloo wants the exact name of an interface that has an address. Of several names,
with a comma and without a space between them, it makes a device for each, and one that is not there fails all.

Fix
---
Set it to the interface that reaches the other nodes, on each node its own, and on each as many. Where the host name
resolves to a real address it can be unset.

When it is harmless
-------------------
When no gloo group is made (backend="nccl").

See also
--------
gloo/interface-unreachable, gloo/loopback-address
"""

from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Line,
    Node,
    gloo_device_names,
    is_bridge,
    is_loopback,
    makes_gloo_group,
    primary_interface,
    together,
)

SEVERITY = "fail"
NAMED = (
    "Set GLOO_SOCKET_IFNAME to the interface that reaches the other nodes, on each node its own (`ip -br address` "
    "lists them); where it is not set, give the host name its real address in /etc/hosts."
)
LOG = (
    Line(
        "Unable to find address for:",
        r"Unable to find address for: ?(?P<interface>\S{1,64})",
        unless="rp != nullptr",  # then it is a host's name: gloo/transport/tcp/device.cc
        fix=NAMED,
    ),
    Line("makeDeviceForInterface", "[Uu]nable to find interface|interface .{0,64} not found", fix=NAMED),
)
PREVENTS = "peers connected"
LOOKS_AT = ("host.gloo",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [n for n in cluster.nodes if n.host.gloo and n.host.gloo.reason == "not-found"]
    bad = [node for node in bad if makes_gloo_group(node)]
    if not bad:
        return
    names = tuple(node.name for node in bad)
    values = list(dict.fromkeys(shown(value(node)) for node in bad))
    yield Finding.about(
        bad,
        f"GLOO_SOCKET_IFNAME={together(values)} names {what(bad)} with an address on {together(names)}.",
        evidence=(line for node in bad for line in evidence(node)),
        fixes=(fix for node in bad for fix in fixes(cluster, node)),
    )


def shown(name: str) -> str:
    """As it is, or where it has what cannot be seen, such as the end of a line that Windows writes, in quotes."""
    return name if name == name.strip() and name.isprintable() else repr(name)


def absent(node: Node) -> list[str]:
    """The names in the variable that no interface with an address has."""
    there = {i.name for i in node.interfaces if i.addresses}
    return [name for name in gloo_device_names(value(node)) if name not in there]


def what(bad: list[Node]) -> str:
    if all(len(gloo_device_names(value(node))) == 1 for node in bad):
        return "no interface"
    missing = dict.fromkeys(repr(name) for node in bad for name in absent(node))
    return f"{together(missing)}, not an interface"


def value(node: Node) -> str:
    choice = node.host.gloo
    return (choice.variable if choice else None) or ""


def evidence(node: Node) -> Iterator[str]:
    interfaces = node.interfaces
    there = ", ".join(f"{i.name} ({', '.join(i.addresses)})" for i in interfaces if i.addresses)
    yield f"{node.name}: GLOO_SOCKET_IFNAME={value(node)!r}; the interfaces with an address are {there or 'none'}"
    if value(node)[:1] in ("^", "="):
        yield f"{node.name}: {value(node)[0]!r} is NCCL_SOCKET_IFNAME's syntax; gloo takes a plain name only"


def fixes(cluster: Cluster, node: Node) -> Iterator[Fix]:
    interface, names = primary_interface(node) or first_interface(node), (node.name,)
    wanted = usual_count(cluster, node)
    if wanted > 1:
        yield several(node, wanted)
        return
    if interface:
        yield Fix(f"On {node.name}, name an interface that is there.", names, env={"GLOO_SOCKET_IFNAME": interface})
    else:
        yield Fix(f"On {node.name}, set GLOO_SOCKET_IFNAME to an interface that is there.", names)
    resolved = node.host.own_name.addresses
    if resolved and (not is_loopback(resolved[0]) or not cluster.multi_host):
        text = f"Or unset it on {node.name}: gloo then takes {resolved[0]}, by the host's name."
        yield Fix(text, names, 2, env={"GLOO_SOCKET_IFNAME": None})


def usual_count(cluster: Cluster, node: Node) -> int:
    """Return how many devices gloo makes on most of the other nodes."""
    others = [other for other in cluster.nodes if other is not node and not absent(other)]
    counts = [len(gloo_device_names(value(other)) or (0,)) for other in others]
    return max(counts, key=counts.count, default=1)


def several(node: Node, wanted: int) -> Fix:
    """As many interfaces as the other nodes name: those that are there, and further ones where it is plain which."""
    there = {i.name: i for i in node.interfaces if i.up and i.addresses}
    kept = [name for name in gloo_device_names(value(node)) if name in there]
    rest = [name for name, one in there.items() if name not in kept and not one.loopback and not is_bridge(name)]
    if len(kept) + len(rest) == wanted:
        text = f"On {node.name}, name {wanted} interfaces that are there, as many as on the other nodes."
        return Fix.on(node, text, env={"GLOO_SOCKET_IFNAME": ",".join([*kept, *rest])})
    text = f"On {node.name}, name as many interfaces as on the other nodes, {wanted}; or name one on each node."
    return Fix.on(node, text)


def first_interface(node: Node) -> str | None:
    """For a node that talks to nobody else: any interface that is up will do, loopback best."""
    interfaces = [i for i in node.interfaces if i.up and i.addresses]
    return next((i.name for i in sorted(interfaces, key=lambda i: not i.loopback)), None)
