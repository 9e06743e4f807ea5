"""GLOO_SOCKET_IFNAME names no interface of this node.

What you see
------------
init_process_group() with gloo raises at once, on every rank of the node

    RuntimeError: Unable to find address for: ib0

Why it happens
--------------
The variable was copied from another cluster, interface names differ between the nodes, or it uses `^` or `=`, which
only NCCL_SOCKET_IFNAME understands. gloo wants the exact name of an interface that has an address.

Fix
---
Set it to the interface that reaches the other nodes, on each node its own. Where the host name resolves to a real
address it can be unset.

When it is harmless
-------------------
When no gloo group is made (backend="nccl").

See also
--------
gloo/interface-unreachable, gloo/loopback-address
"""

from distdoctor.blame import makes_gloo, primary_interface, together
from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, is_loopback

SEVERITY = "fail"


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [n for n in cluster.nodes if n.facts.host and n.facts.host.gloo and n.facts.host.gloo.reason == "not-found"]
    bad = [node for node in bad if makes_gloo(node)]
    if not bad:
        return
    names = tuple(node.name for node in bad)
    values = list(dict.fromkeys(value(node) for node in bad))
    yield Finding(
        summary=f"GLOO_SOCKET_IFNAME={together(values)} names no interface with an address on {together(names)}.",
        nodes=names,
        ranks=tuple(rank for node in bad for rank in node.ranks),
        evidence=tuple(line for node in bad for line in evidence(node)),
        fixes=tuple(fix for node in bad for fix in fixes(cluster, node)),
    )


def value(node: Node) -> str:
    choice = node.facts.host.gloo if node.facts.host else None
    return (choice.variable if choice else None) or ""


def evidence(node: Node) -> Iterator[str]:
    interfaces = node.facts.host.interfaces if node.facts.host else ()
    there = ", ".join(f"{i.name} ({', '.join(i.addresses)})" for i in interfaces if i.addresses)
    yield f"{node.name}: GLOO_SOCKET_IFNAME={value(node)!r}; the interfaces with an address are {there or 'none'}"
    if value(node)[:1] in ("^", "="):
        yield f"{node.name}: {value(node)[0]!r} is NCCL_SOCKET_IFNAME's syntax; gloo takes a plain name only"


def fixes(cluster: Cluster, node: Node) -> Iterator[Fix]:
    interface, names = primary_interface(node) or first_interface(node), (node.name,)
    if interface:
        yield Fix(f"On {node.name}, name an interface that is there.", names, env={"GLOO_SOCKET_IFNAME": interface})
    else:
        yield Fix(f"On {node.name}, set GLOO_SOCKET_IFNAME to an interface that is there.", names)
    resolved = node.facts.host.own_name.addresses if node.facts.host else ()
    if resolved and (not is_loopback(resolved[0]) or not cluster.multi_host):
        text = f"Or unset it on {node.name}: gloo then takes {resolved[0]}, by the host's name."
        yield Fix(text, names, 2, env={"GLOO_SOCKET_IFNAME": None})


def first_interface(node: Node) -> str | None:
    """For a node that talks to nobody else: any interface that is up will do, loopback best."""
    interfaces = [i for i in (node.facts.host.interfaces if node.facts.host else ()) if i.up and i.addresses]
    return next((i.name for i in sorted(interfaces, key=lambda i: not i.loopback)), None)
