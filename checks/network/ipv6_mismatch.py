"""Some nodes are reached by IPv6 and others by IPv4.

## What you see
init_process_group() with gloo fails at once on some ranks, and the others wait:

    [enforce fail at .../gloo/transport/tcp/address.cc] ss1.ss_family == ss2.ss_family. 10 vs 2

Or silence: a store client tries the IPv6 address of MASTER_ADDR first, and if packets to it are dropped it never tries
the IPv4 one. errno 97 (`Address family not supported by protocol`) alone is harmless.

## Why it happens
gloo advertises the first address of each host's own name. On one node /etc/hosts or the name service (AAAA records)
returns an IPv6 address first, on the others IPv4. The two cannot connect.

## Fix
Set the interface on the nodes that differ, `export GLOO_SOCKET_IFNAME=eth0`: gloo then uses its first address, IPv4 if
there is one.

Or give the host name one family only in /etc/hosts. If only node 0's own packet filter drops IPv6, accept it there.

## Confirm with
`getent ahosts $(hostname)` prints an address of the same family first on every node.

## When it is harmless
No gloo group is created (backend="nccl"; NCCL_SOCKET_FAMILY is its own setting). An IPv6 address of MASTER_ADDR that
refuses at once costs nothing. One that fails after seconds is a WARN.

## See also
network/wrong-interface, gloo/interface-unreachable, network/master-unreachable
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from distdoctor.check_api import (
    NO_GLOO,
    Cluster,
    Contact,
    Finding,
    Fix,
    Line,
    Node,
    contact_text,
    is_bridge,
    is_loopback,
    is_virtual,
    makes_gloo_group,
    open_firewall_fix,
    parse_address,
    primary_interface,
    set_master_fixes,
    shorten_error,
    some_of,
    together,
)

SEVERITY = "fail"
LOG = (Line("ss_family", r"ss1\.ss_family == ss2\.ss_family"),)
MATTERS = "every connection to the master would first wait for the unreachable address"
PREVENTS = "store used"
LOOKS_AT = ("network.master", "everyone")
FOLLOWS = ("gloo/loopback-address", "network/wrong-interface")
GLOO_MESSAGE = "ss_family"
NOTICED = 1.0
"""Seconds from which an address that fails is a delay that people notice."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    dead = [node for node in cluster.nodes if dead_first(node)]
    if dead:
        rule = own_rule(cluster.node0)
        yield shut_by_node0(cluster.node0, dead, rule) if cluster.node0 and rule else tried_first(dead)
    families = {node: family for node in cluster.nodes if (family := gloo_family(node)) is not None}
    if not cluster.multi_host or len(set(families.values())) < 2:
        return
    usual = usual_family(families)
    blamed = [node for node in families if usual is None or families[node] != usual]
    parts = [
        f"IPv{version} on {some_of(n.name for n in families if families[n] == version)}"
        for version in sorted(set(families.values()))
    ]
    yield Finding.about(
        blamed,
        f"gloo picked {together(parts)}: it cannot connect the two.",
        unsure=usual is None,
        severity="fail" if cluster.gloo_planned else "warn",
        matters="" if cluster.gloo_planned else NO_GLOO,
        evidence=(*(line(node) for node in blamed), *gloo_error(families)),
        fixes=fixes(families, usual),
    )


def dead_first(node: Node) -> tuple[Contact, ...]:
    """Return the IPv6 addresses of MASTER_ADDR that a store client tries in vain before the IPv4 one."""
    contact = node.network.contact
    if contact is None or contact.outcome != "open" or ":" in contact.address:
        return ()
    slow = (c for c in node.network.passed_over if ":" in c.address and c.seconds >= NOTICED)
    return tuple(c for c in slow if c.outcome in ("no-answer", "unreachable", "error"))


def tried_first(nodes: list[Node]) -> Finding:
    """Return the finding about a MASTER_ADDR whose IPv6 address is unreachable, while its IPv4 address works."""
    names = tuple(node.name for node in nodes)
    first, contact = dead_first(nodes[0])[0], nodes[0].network.contact
    working = contact.address if contact else None
    dropped = any(c.outcome == "no-answer" for node in nodes for c in dead_first(node))
    return Finding.about(
        nodes,
        f"{nodes[0].plan.master_addr} resolves on {some_of(names)} first to {first.address}, which is unreachable, "
        f"then to {working}, which works.",
        severity="fail" if dropped else "warn",
        evidence=(f"{node.name}: {contact_text(contact)}" for node in nodes for contact in dead_first(node)),
        fixes=set_master_fixes(nodes, "Set the master to node 0's IPv4 address.", address=working),
    )


def own_rule(zero: Node | None) -> str:
    """The rule of node 0's own packet filter that shuts the master's port for IPv6; empty where none is known."""
    rules = zero.network.firewall.shut if zero is not None and zero.network.firewall else ()
    port = zero.plan.master_port if zero is not None else None
    return next((rule.rule for rule in rules if rule.version == 6 and rule.port == port and rule.how == "drop"), "")


def shut_by_node0(zero: Node, nodes: list[Node], rule: str) -> Finding:
    """Return the finding about a node 0 whose own packet filter blocks IPv6, which clients try first."""
    port, peers = zero.plan.master_port, [address for node in (*nodes, zero) for address in own_six(node)]
    return Finding.about(
        (zero.name,),
        f"{zero.name}'s own packet filter blocks port {port} for IPv6, which "
        f"{some_of(node.name for node in nodes)} {'tries' if len(nodes) == 1 else 'try'} first.",
        severity="fail",
        evidence=(
            f"{zero.name}: {rule}",
            *(f"{node.name}: {contact_text(contact)}" for node in nodes for contact in dead_first(node)),
        ),
        fixes=(open_firewall_fix(zero, zero.name, "input", peers, port),),
    )


def own_six(node: Node) -> list[str]:
    """The IPv6 addresses that other hosts know it by."""
    parsed = ((address, parse_address(address)) for address in node.addresses)
    return [
        address
        for address, number in parsed
        if number is not None and number.version == 6 and not number.is_loopback and not number.is_link_local
    ]


def gloo_family(node: Node) -> int | None:
    """4 or 6: the family of the address that gloo picks on this node; None where it makes no group, or for loopback."""
    parsed = parse_address(node.gloo_address)
    if parsed is None or not makes_gloo_group(node) or is_loopback(node.gloo_address):
        return None
    return parsed.version


def usual_family(families: dict[Node, int]) -> int | None:
    """The family that most nodes' gloo picks; where that is a draw, the one by which most nodes are reached."""
    reached = Counter(parsed.version for node in families if (parsed := parse_address(node.reached_at)) is not None)
    for counts in (Counter(families.values()), reached):
        ranked = counts.most_common(2)
        if len(ranked) == 1 or (len(ranked) == 2 and ranked[0][1] > ranked[1][1]):
            return ranked[0][0]
    return None


def fixes(families: dict[Node, int], usual: int | None) -> Iterator[Fix]:
    """All to the usual family; in a draw to one or to the other, first to that for which variables do."""
    wanted = [usual] if usual is not None else sorted(set(families.values()))
    by_family = [[fix(node, family) for node in families if families[node] != family] for family in wanted]
    by_family.sort(key=lambda way: not all(change.env for change in way))
    yield from (replace(change, option=option) for option, way in enumerate(by_family, start=1) for change in way)


def line(node: Node) -> str:
    choice, name = node.host.gloo, node.host.own_name
    if choice is not None and choice.reason == "variable":
        return f"{node.name}: gloo uses {node.gloo_address}, by GLOO_SOCKET_IFNAME={choice.variable}"
    resolved = f": its own name {name.name} is {', '.join(name.addresses)}" if node.saw("host") else ""
    return f"{node.name}: gloo uses {node.gloo_address}{resolved}; other nodes reach it at {node.reached_at}"


def gloo_error(families: dict[Node, int]) -> Iterator[str]:
    """Yield gloo's own error about it, once."""
    for node in families:
        for rank in node.facts.ranks:
            for entry in rank.stages:
                if entry.error and GLOO_MESSAGE in entry.error:
                    yield f"{node.name} rank {rank.rank}: {shorten_error(entry.error)}"
                    return


def fix(node: Node, family: int) -> Fix:
    """GLOO_SOCKET_IFNAME takes an interface's first address: only one that begins with the right family helps."""
    first = primary_interface(node)
    interfaces = [i for i in node.interfaces if i.up and not i.loopback]
    interfaces = [i for i in interfaces if i.name == first or not is_bridge(i.name)]
    interfaces.sort(key=lambda i: (i.name != first, is_virtual(i.name)))
    for interface in interfaces:
        parsed = parse_address(interface.addresses[0]) if interface.addresses else None
        if parsed is not None and parsed.version == family and not parsed.is_link_local:
            text = f"On {node.name}, let gloo use the IPv{family} address of {interface.name}."
            return Fix.on(node, text, env={"GLOO_SOCKET_IFNAME": interface.name})
    name = node.identity.hostname
    text = f"On {node.name}, give its own name {name} only an IPv{family} address in /etc/hosts."
    return Fix.on(node, text)
