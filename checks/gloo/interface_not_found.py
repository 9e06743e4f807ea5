"""GLOO_SOCKET_IFNAME names no interface of this node.

## What you see
init_process_group() with gloo raises at once, on every rank of the node

    RuntimeError: Unable to find address for: ib0

## Why it happens
The variable was copied from another cluster, or interface names differ between the nodes. Or the value uses `^` or
`=`, which only NCCL_SOCKET_IFNAME understands. gloo needs the exact name of an interface that has an address. A list
takes commas without spaces; gloo makes a device for each name, and one unknown name fails the whole list.

## Fix
On each node, set it to the interface that reaches the other nodes: `export GLOO_SOCKET_IFNAME=eth0`. Every node must
name the same number of interfaces. If the hostname resolves to a real address, `unset GLOO_SOCKET_IFNAME` also works.

## Confirm with
`ip -br address` (lists the interfaces and their addresses).

## When it is harmless
When the job forms no gloo group (backend="nccl").

## See also
gloo/interface-unreachable, gloo/loopback-address
"""

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Iterator,
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
    "On each node, set GLOO_SOCKET_IFNAME to the interface that reaches the other nodes (`ip -br address` lists them). "
    "If it is not set, give the hostname its real address in /etc/hosts."
)
LOG = (
    Line(
        "Unable to find address for:",
        r"Unable to find address for: ?(?P<interface>\S{1,64})",
        unless="rp != nullptr",  # a hostname: gloo/transport/tcp/device.cc
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
    values = list(dict.fromkeys(quoted_if_odd(value(node)) for node in bad))
    yield Finding.about(
        bad,
        f"GLOO_SOCKET_IFNAME={together(values)} names {mistake(bad)} with an address on {together(names)}.",
        evidence=(line for node in bad for line in evidence(node)),
        fixes=(fix for node in bad for fix in fixes(cluster, node)),
    )


def quoted_if_odd(name: str) -> str:
    """Return the name, in quotes if it has invisible characters (such as the line end of a Windows file)."""
    return name if name == name.strip() and name.isprintable() else repr(name)


def absent(node: Node) -> list[str]:
    """Return the names in the variable that no interface with an address has."""
    there = {i.name for i in node.interfaces if i.addresses}
    return [name for name in gloo_device_names(value(node)) if name not in there]


def mistake(bad: list[Node]) -> str:
    if all(len(gloo_device_names(value(node))) == 1 for node in bad):
        return "no interface"
    missing = dict.fromkeys(repr(name) for node in bad for name in absent(node))
    return f"{together(missing)}, not an interface"


def value(node: Node) -> str:
    choice = node.host.gloo
    return (choice.variable if choice else None) or ""


def evidence(node: Node) -> Iterator[str]:
    interfaces = node.interfaces
    present = ", ".join(f"{i.name} ({', '.join(i.addresses)})" for i in interfaces if i.addresses)
    yield f"{node.name}: GLOO_SOCKET_IFNAME={value(node)!r}; interfaces with an address: {present or 'none'}"
    if value(node)[:1] in ("^", "="):
        yield f"{node.name}: {value(node)[0]!r} is NCCL_SOCKET_IFNAME's syntax; gloo takes plain names only"


def fixes(cluster: Cluster, node: Node) -> Iterator[Fix]:
    interface, names = primary_interface(node) or first_interface(node), (node.name,)
    wanted = usual_count(cluster, node)
    if wanted > 1:
        yield several(node, wanted)
        return
    if interface:
        yield Fix(
            f"On {node.name}, set GLOO_SOCKET_IFNAME to {interface}.", names, env={"GLOO_SOCKET_IFNAME": interface}
        )
    else:
        yield Fix(
            f"On {node.name}, set GLOO_SOCKET_IFNAME to an existing interface. Confirm with: `ip -br address`.", names
        )
    resolved = node.host.own_name.addresses
    if resolved and (not is_loopback(resolved[0]) or not cluster.multi_host):
        text = f"Or unset it on {node.name}; gloo then binds {resolved[0]}, the address of the hostname."
        yield Fix(text, names, 2, env={"GLOO_SOCKET_IFNAME": None})


def usual_count(cluster: Cluster, node: Node) -> int:
    """Return how many devices gloo makes on most of the other nodes."""
    others = [other for other in cluster.nodes if other is not node and not absent(other)]
    counts = [len(gloo_device_names(value(other)) or (0,)) for other in others]
    return max(counts, key=counts.count, default=1)


def several(node: Node, wanted: int) -> Fix:
    """Return the fix that names as many interfaces as the other nodes do; with values if the choice is unambiguous."""
    there = {i.name: i for i in node.interfaces if i.up and i.addresses}
    kept = [name for name in gloo_device_names(value(node)) if name in there]
    rest = [
        name for name, interface in there.items() if name not in kept and not interface.loopback and not is_bridge(name)
    ]
    if len(kept) + len(rest) == wanted:
        text = f"On {node.name}, set GLOO_SOCKET_IFNAME to {wanted} existing interfaces, as on the other nodes."
        return Fix.on(node, text, env={"GLOO_SOCKET_IFNAME": ",".join([*kept, *rest])})
    text = (
        f"On {node.name}, set GLOO_SOCKET_IFNAME to {wanted} interfaces, as on the other nodes. "
        "Confirm with: `ip -br address`."
    )
    return Fix.on(node, text)


def first_interface(node: Node) -> str | None:
    """Return an interface for a node without peers: loopback if it is up, else any that is up."""
    interfaces = [i for i in node.interfaces if i.up and i.addresses]
    return next((i.name for i in sorted(interfaces, key=lambda i: not i.loopback)), None)
