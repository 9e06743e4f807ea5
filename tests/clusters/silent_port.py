"""Where the master's port gives no answer: what filters, netmasks, routes, marks and tunnels show of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distdoctor.model.facts import (
    Firewall,
    FirewallChain,
    Interface,
    IpsecPolicy,
    Neighbour,
    PacketMark,
    Passage,
    PolicyRule,
    Route,
    TableRoute,
)
from tests.checks.row import Facts
from tests.clusters.master import own_rule, shut
from tests.clusters.routes import LAN, by_policy, masked, route, routed, two
from tests.facts_builder import (
    CLEAN,
    PORT,
    UNREAD,
    blocking,
    healthy,
    met,
    outside,
    waited_in_vain,
    with_host,
    with_meeting,
    with_network,
)


def shut_unread(*which: int) -> Facts:
    facts = list(shut("no-answer", control="refused"))
    for number in which:
        facts[number] = with_network(facts[number], firewall=UNREAD)
    return tuple(facts)


def back_by_policy() -> Facts:
    """node 0 answers from MASTER_PORT by a table of its own, in which all goes by a gateway that is none."""
    a, b = two()
    table = route("0.0.0.0/0", "10.77.0.99")
    return by_policy(a, f"from all sport {PORT} lookup 100", table, source_ports=(PORT, PORT)), b


def back_by_mark(side: str = "sport", mark: int = 0x11) -> Facts:
    """node 0's packet filter marks what comes from MASTER_PORT, and by that it goes to a gateway that is none."""
    a, b = two()
    rule = f"nft chain ip m c: tcp sport {PORT} packet mark set {mark:#x}"
    a = with_network(a, firewall=Firewall(True, marks=(PacketMark(PORT, side, 4, mark, rule),)))  # type: ignore[arg-type]
    text = "from all fwmark 0x1/0xf lookup 100"
    return by_policy(a, text, route("0.0.0.0/0", "10.77.0.99"), mark=(1, 0xF)), b


def shut_third() -> Facts:
    a, b, c = healthy(3)
    a = with_network(a, firewall=blocking("ip saddr 10.77.0.12 tcp dport 29500 drop"))
    return (
        *met(a, b, outside(c, "no-answer", control="refused"), expected=3)[:2],
        outside(c, "no-answer", control="refused"),
    )


def shut_all_of_three() -> Facts:
    a, b, c = (with_network(one, firewall=UNREAD) for one in healthy(3))
    return waited_in_vain(a, 3), outside(b, "no-answer", control="refused"), outside(c, "no-answer", control="refused")


DROP = ("tcp dport 29500 drop",)


def narrow_mask(control: str = "no-answer") -> Facts:
    """host1 at 10.77.0.200/25 sends to node 0 by a gateway, and nothing comes back."""
    a, b = two(control=control)
    assert b.host is not None
    lo, eth0 = b.host.interfaces
    b = with_host(b, interfaces=(lo, replace(eth0, addresses=("10.77.0.200",), prefix_lengths=(25,))))
    b = with_network(b, route=Route("10.77.0.10", "10.77.0.200", "eth0"))
    return a, routed(b, route("10.77.0.128/25"), route("0.0.0.0/0", "10.77.0.201"))


def mask_of_node_0() -> Facts:
    a, b = two(control="no-answer")
    return masked(a, 32), b


def back_by_a_gateway() -> Facts:
    a, b = two(control="no-answer")
    return routed(a, route(LAN), route("10.77.0.11/32", "10.77.0.99")), b


def back_into_a_hole() -> Facts:
    a, b = two(control="no-answer")
    return routed(a, route(LAN), route("10.77.0.11/32", None, None, True)), b


def no_way_back() -> Facts:
    """host1 is in another network, which node 0 has no route to; host1 has node 0's network on its link."""
    a, b = two(control="no-answer")
    assert b.host is not None
    b = with_host(b, interfaces=(b.host.interfaces[0], Interface("eth0", ("10.88.0.11",), (24,), mtu=1500)))
    b = with_network(b, route=Route("10.77.0.10", "10.88.0.11", "eth0"))
    return a, routed(b, route("10.88.0.0/24"), route(LAN))


def over_no_router(ttl: str = "1", gateway: str | None = "10.77.0.12") -> Facts:
    """host1 is in another network, and what node 0 sends there may not pass a router."""
    a, b = no_way_back()
    b = routed(b, route("10.88.0.0/24"), route(LAN, "10.88.0.1"))
    return routed(with_host(a, sysctls={"net.ipv4.ip_default_ttl": ttl}), route(LAN), route("10.88.0.0/24", gateway)), b


def by_ipsec(on: int, way: str = "out", *before: IpsecPolicy, every: str = "", **policy: Any) -> Facts:
    """One of the two has a policy of IPsec for what goes to the other, or comes from there; without an association.
    ``every``: the network that it is for on both ends."""
    facts = list(two(control="no-answer"))
    mine, other = f"10.77.0.{10 + on}/32", f"10.77.0.{11 - on}/32"
    source, target = (every, every) if every else (mine, other) if way == "out" else (other, mine)
    its = IpsecPolicy(way, 4, source, target, **(policy or {"lacks": True}))  # type: ignore[arg-type]
    facts[on] = with_network(facts[on], ipsec=(*before, its))
    return tuple(facts)


def odd_source(*back: TableRoute, **control: str) -> Facts:
    """host1 sends to node 0 from an address of lo, to which node 0 has these entries."""
    a, b = two(**(control or {"control": "no-answer"}))
    assert b.host is not None
    lo, eth0 = b.host.interfaces
    b = with_host(b, interfaces=(replace(lo, addresses=("127.0.0.1", "10.99.9.9"), prefix_lengths=(8, 32)), eth0))
    return routed(a, route(LAN), *back), with_network(b, route=Route("10.77.0.10", "10.99.9.9", "lo"))


def by_unknown_rule() -> Facts:
    """host1 sends to node 0 from the address of a tunnel, though its routing table sends that by eth0."""
    a, b = two(control="refused")
    assert b.host is not None
    b = with_host(b, interfaces=(*b.host.interfaces, Interface("wg0", ("10.14.0.2",), (32,), mtu=1420)))
    return routed(a, route(LAN)), with_network(b, route=Route("10.77.0.10", "10.14.0.2", "wg0"))


def vpn(*networks: str, outcome: str = "no-answer") -> Facts:
    """host1's VPN client sends part of the LAN into its tunnel, beside eth0's own entry."""
    a, b = two(outcome)
    assert b.host is not None
    b = with_host(b, interfaces=(*b.host.interfaces, Interface("tun0", ("10.16.0.19",), (16,), mtu=1500)))
    b = with_network(b, route=Route("10.77.0.10", "10.16.0.19", "tun0"))
    return a, routed(b, route(LAN), route("10.16.0.0/16", None, "tun0"), *(route(n, None, "tun0") for n in networks))


def vpn_on_node_0() -> Facts:
    a, b = two()
    assert a.host is not None
    a = with_host(a, interfaces=(*a.host.interfaces, Interface("tun0", ("10.16.0.19",), (16,), mtu=1500)))
    return routed(a, route(LAN), route("10.77.0.0/25", None, "tun0")), b


def other_source(to: str, alone: bool = False) -> Facts:
    """A rule of host1's makes what it sends come from this address; its filter lets all through."""
    a, b = shut("no-answer", control="refused", rules=(f'oifname "eth0" snat to {to}',), at=1, hook="output")
    assert b.network is not None and b.network.firewall is not None
    passage = Passage("out", "0.0.0.0", "255.255.255.255", PORT)
    b = with_network(b, firewall=replace(b.network.firewall, passages=(passage,)))
    return (b,) if alone else (with_network(a, firewall=CLEAN), b)


def let_in(first: str, last: str, port: int | None = PORT) -> Facts:
    """Node 0's filter has a policy of drop, and lets these addresses in."""
    a, b = shut("no-answer", control="no-answer", rules=("ct state invalid drop",))
    assert a.network is not None and a.network.firewall is not None
    chains = (replace(a.network.firewall.chains[0], policy="drop"),)
    return with_network(a, firewall=Firewall(True, chains=chains, passages=(Passage("in", first, last, port),))), b


def let_out(*ways: str) -> Facts:
    """Both ends drop what goes to the cloud's own address, and let each other through (host1 in, and out)."""
    a, b = shut("no-answer", control="refused")
    rules = FirewallChain("nft", "ip", "filter", "OUTPUT", "output", "accept", ("ip daddr 169.254.169.254 drop",))
    at = ("0.0.0.0", "169.254.169.253", PORT)
    both = tuple(Firewall(True, chains=(rules,), passages=(Passage(way, *at),) if way else ()) for way in ways)  # type: ignore[arg-type]
    return with_network(a, firewall=both[0]), with_network(b, firewall=both[1])


def vpn_that_works() -> Facts:
    a, b = healthy(2)
    assert b.host is not None
    down = Interface("admin0", ("10.77.0.21",), (24,), up=False)
    b = with_host(b, interfaces=(*b.host.interfaces, Interface("tun0", ("10.16.0.19",), (16,)), down))
    return routed(a, route(LAN)), routed(b, route(LAN), route("10.77.0.0/25", None, "tun0"))


def others_came() -> Facts:
    """One of the other hosts is there, whatever the rules say."""
    (a,) = own_rule("drop", came=2)
    return (with_meeting(a, arrived=(a.key, "host1 1001")),)


def up(address: str = "10.77.0.10", gateway: bool = False) -> Facts:
    """host1 alone: nothing of TCP comes back from node 0, which answers ARP."""
    _, b = shut("no-answer", control="no-answer")
    return (with_network(b, neighbour=Neighbour(address, "eth0", "answers", gateway)),)


def wg_quick(back: tuple[TableRoute, ...] = (route("10.5.0.0/24", "10.77.0.12"),)) -> Facts:
    """host1 is behind a router, and wg-quick's rules send by the tunnel what its main table sends to that."""
    a, b = two()
    assert b.host is not None
    eth0 = replace(b.host.interfaces[1], addresses=("10.5.0.2",))
    tunnel = Interface("wg0", ("10.14.0.2",), (32,), mtu=1420)
    b = with_host(b, interfaces=(b.host.interfaces[0], eth0, tunnel))
    main = (route("0.0.0.0/0", "10.5.0.1"), route("10.5.0.0/24"))
    rules = (
        PolicyRule(4, "from all lookup 254", routes=main[1:], main=True),
        PolicyRule(
            4,
            "not from all fwmark 0xca6c lookup 51820",
            mark=(0xCA6C, 0xFFFFFFFF),
            routes=(route("0.0.0.0/0", None, "wg0"),),
            inverted=True,
        ),
    )
    b = with_network(b, routes=main, policy=rules, route=Route("10.77.0.10", "10.14.0.2", "wg0"))
    return routed(a, route(LAN), *back), b
