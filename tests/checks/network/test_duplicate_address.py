"""network/duplicate-address: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import AddressChoice, HardwareAddress, Interface, Link, NodeFacts, Resolution, TableRoute
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import (
    blocking,
    healthy,
    node,
    outside,
    waited_in_vain,
    with_host,
    with_meeting,
    with_mesh,
    with_network,
)

CHECK = "network/duplicate-address"
Answered = HardwareAddress
OWN_NETWORK = (TableRoute("10.77.0.0/24", None, "eth0"),)
MAC0, MAC1, MACX = "02:00:00:00:00:0a", "02:00:00:00:00:0b", "02:00:00:00:00:99"


def also(address: str, *, length: int = 24, interface: str = "eth1", on: int = 2, of: int = 3) -> Facts:
    """A node has this address besides its own."""
    facts = list(healthy(of))
    one = facts[on]
    assert one.host is not None
    facts[on] = with_host(one, interfaces=(*one.host.interfaces, Interface(interface, (address,), (length,), mtu=1500)))
    return tuple(facts)


def surplus() -> Facts:
    """host2 has host1's address besides its own, and whoever connects to that gets the one or the other."""
    a, b, c = also("10.77.0.11")
    c = with_mesh(c, bad=(Link(b.key, "10.77.0.11", 40001, ("gloo", "primary"), "refused", 111),))
    b = with_mesh(b, bad=(Link(c.key, "10.77.0.12", 40002, ("gloo", "primary"), "no-answer"),))
    return a, b, c


def cloned() -> Facts:
    """host2 is at host1's address, and host1 does not get to the store."""
    a, b, _ = healthy(3)
    c = node("host2", 2, of=3, ip="10.77.0.11", master="10.77.0.10")
    return waited_in_vain(a), outside(b, "no-answer", control="no-answer"), c


def cloned_later() -> Facts:
    """All had met before the neighbours took host1's card for the address of host2, too."""
    a, b, _ = healthy(3)
    c = node("host2", 2, of=3, ip="10.77.0.11", master="10.77.0.10")
    return with_meeting(a, lost=(c.key,)), b, with_meeting(c, host_lost=True)


def stranger(
    *answered: HardwareAddress,
    outcome: str = "refused",
    rules: tuple[str, ...] = (),
    routes: tuple[TableRoute, ...] = (),
) -> Facts:
    """host1 does not get to host0; its ARP table says who answered for which address."""
    a, b = healthy(2)
    assert a.host is not None
    a = with_host(a, interfaces=tuple(replace(i, mac=MAC0 if i.name == "eth0" else "") for i in a.host.interfaces))
    if rules:
        a = with_network(a, firewall=blocking(*rules))
    b = with_network(outside(b, outcome), hardware_addresses=answered, routes=routes or OWN_NETWORK)
    return waited_in_vain(a), b


def carded(*macs: str) -> list[NodeFacts]:
    """Nodes whose eth0 has these hardware addresses."""
    facts = []
    for one, mac in zip(healthy(len(macs)), macs, strict=True):
        assert one.host is not None
        lo, eth0 = one.host.interfaces
        facts.append(with_network(with_host(one, interfaces=(lo, replace(eth0, mac=mac))), routes=OWN_NETWORK))
    return facts


def one_card(*, rules: tuple[str, ...] = ()) -> Facts:
    """host1 has the hardware address of node 0, and does not get to it."""
    a, b = carded(MAC0, MAC0)
    if rules:
        a = with_network(a, firewall=blocking(*rules))
    return waited_in_vain(a), outside(b, "unreachable", errno=113)


def one_card_of_three() -> Facts:
    a, b, c = carded(MAC0, MACX, MACX)
    c = with_mesh(c, bad=(Link(b.key, "10.77.0.11", 40001, ("gloo", "primary"), "no-answer"),))
    return a, b, c


def by_hand(mac: str = MACX) -> Facts:
    """host1's table has node 0's address with a hardware address that somebody wrote there."""
    a, b = carded(MAC0, MAC1)
    b = with_network(outside(b, "no-answer"), hardware_addresses=(Answered("10.77.0.10", mac, "eth0", True),))
    return waited_in_vain(a), b


def on_loopback(address: str = "10.77.0.10") -> Facts:
    """host1 has an address of node 0 on its lo, and finds nobody but itself there."""
    a, b = healthy(2)
    assert b.host is not None
    lo, eth0 = b.host.interfaces
    lo = replace(lo, addresses=(*lo.addresses, address), prefix_lengths=(*lo.prefix_lengths, 32))
    b = with_host(b, interfaces=(lo, eth0))
    if address != "10.77.0.10":
        return a, b
    itself = AddressChoice(address, "lo", "MASTER_ADDR")
    return waited_in_vain(a), with_network(outside(b, "refused"), master_is_own=True, primary=itself)


def by_identity(*more: str) -> Facts:
    """Each host is reached at an address of its lo, as where routes are announced by the hosts; host2 has ``more``."""
    facts = []
    for number, one in enumerate(healthy(3)):
        assert one.host is not None
        own = (f"10.255.0.{number}", *(more if number == 2 else ()))
        lo, eth0 = one.host.interfaces
        lo = replace(lo, addresses=(*lo.addresses, *own), prefix_lengths=(*lo.prefix_lengths, *(32 for _ in own)))
        at = AddressChoice(own[0], "lo", "hostname")
        one = with_host(one, interfaces=(lo, eth0), gloo=at, own_name=Resolution(one.identity.hostname, own[:1]))
        facts.append(with_network(one, primary=at))
    return tuple(facts)


def on_every_node() -> Facts:
    """Each node has a service's address on a bridge of kube-proxy's."""
    facts = []
    for one in healthy(2):
        assert one.host is not None
        service = Interface("kube-ipvs0", ("10.96.0.77",), (32,), mtu=1500)
        facts.append(with_host(one, interfaces=(*one.host.interfaces, service)))
    return tuple(facts)


def in_a_container(number: int) -> tuple[Interface, ...]:
    return (Interface("eth0", (f"172.17.0.{number}",), (16,), mtu=1500),)


def containers() -> Facts:
    """Each node in a network of its own, the same everywhere; the master is reached by a gateway."""
    facts = []
    for one in healthy(2):
        one = with_host(
            one,
            interfaces=in_a_container(2),
            own_name=Resolution(one.identity.hostname, ("172.17.0.2",)),
            gloo=AddressChoice("172.17.0.2", "eth0", "hostname"),
        )
        facts.append(with_network(one, primary=AddressChoice("172.17.0.2", "eth0", "route"), master_is_own=False))
    return tuple(facts)


def not_used(own: tuple[str, ...] = ("fd77::b",), reason: str = "fallback") -> Facts:
    """The IPv6 address of host1, by which its own name is found, is another host's, too."""
    facts = list(healthy(2))
    one = facts[1]
    assert one.host is not None
    lo, eth0 = one.host.interfaces
    eth0 = replace(eth0, addresses=(*eth0.addresses, "fd77::b"), prefix_lengths=(24, 64), refused=("fd77::b",))
    at = AddressChoice(eth0.addresses[0], "eth0", reason) if reason != "fallback" else LOOPBACK
    own_name = Resolution(one.identity.hostname, own)
    facts[1] = with_host(one, interfaces=(lo, eth0), own_name=own_name, gloo=at)
    return tuple(facts)


LOOPBACK = AddressChoice("127.0.0.1", "lo", "fallback")

ROWS = [
    Row("an IPv6 address that the kernel does not use", not_used, ("host1",), together=True),
    Row("surplus", surplus, ("host2",), together=True),
    Row("cloned", cloned, ("host2", "host1"), blame="one-of", alone=("network/port-filtered",)),
    Row(
        "cloned, and lost when it had been met",
        cloned_later,
        ("host1", "host2"),
        blame="one-of",
        alone=("store/node-lost",),
    ),
    Row(
        "a stranger",
        lambda: stranger(Answered("10.77.0.10", MACX, "eth0")),
        ("host0",),
        alone=("network/port-refused",),
    ),
]

ROWS += [
    Row("another's identity on lo", lambda: by_identity("10.255.0.1"), ("host2",), together=True),
    # What host2 sends to it stays on host2, and others reach the one or the other.
    Row("another's address without a network", lambda: also("10.77.0.11", length=32), ("host2",), together=True),
    Row("on a macvlan", lambda: also("10.77.0.11", length=32, interface="mv0"), ("host2",), together=True),
    Row("one card", one_card, ("host0", "host1"), blame="one-of", together=True),
    Row("one card, of three", one_card_of_three, ("host1", "host2"), blame="one-of", together=True),
    Row("written by hand", by_hand, ("host1",), together=True),
    Row("on loopback", on_loopback, ("host1",), together=True),
]

LOOK_ALIKES = [
    LookAlike(
        "an IPv6 address that is not used, and a good one", lambda: not_used(("fd77::b", "10.77.0.11"), "hostname")
    ),
    LookAlike("containers of one machine share its card", lambda: tuple(carded(MAC0, MAC0))),
    LookAlike(
        "a filter says why, and they share a card",
        lambda: one_card(rules=("tcp dport 29500 reject",)),
        "network/master-unreachable",
    ),
    LookAlike("written by hand, rightly", lambda: by_hand(MAC0), "network/port-filtered"),
    LookAlike("a service's address on loopback", lambda: on_loopback("10.77.0.200")),
    LookAlike("a second address", lambda: also("10.77.0.99")),
    LookAlike("a second address on the same interface", lambda: also("10.77.0.99", interface="eth0")),
    LookAlike(
        "a bridge for containers", lambda: also("10.77.0.11", interface="docker0", length=16), "network/wrong-interface"
    ),
    LookAlike("a service's address", lambda: also("10.77.0.99", length=32, interface="eth0")),
    LookAlike("a service's address on every node", on_every_node),
    LookAlike("identities on lo", by_identity),
    LookAlike("containers", containers, "network/wrong-interface"),
    LookAlike("its own card answered", lambda: stranger(Answered("10.77.0.10", MAC0, "eth0")), "network/port-refused"),
    LookAlike(
        "a cloud answers for all",
        lambda: stranger(Answered("10.77.0.10", MACX, "eth0"), Answered("10.77.0.1", MACX, "eth0")),
        "network/port-refused",
    ),
    LookAlike(
        "over a gateway",
        lambda: stranger(Answered("10.77.0.10", MACX, "eth0"), routes=(TableRoute("0.0.0.0/0", "10.78.0.1", "eth0"),)),
        "network/port-refused",
    ),
    LookAlike(
        "a filter says why",
        lambda: stranger(Answered("10.77.0.10", MACX, "eth0"), rules=("tcp dport 29500 reject with tcp reset",)),
        "network/port-refused",
    ),
]

CURES = [
    Cure(
        "written by hand",
        by_hand,
        {"host1": {"commands": ("ip neighbour del 10.77.0.10 dev eth0",)}},
        only=True,
        unsaid=("firewall",),
    ),
    Cure("on loopback", on_loopback, {"host1": {"commands": ("ip address del 10.77.0.10/32 dev lo",)}}, only=True),
    Cure(
        "surplus",
        surplus,
        {
            "host2": {"commands": ("ip address del 10.77.0.11/24 dev eth1",)},
            "host0": {"commands": ("ip neighbour flush to 10.77.0.11",)},
        },
        only=True,
    ),
    Cure("cloned", cloned, {"host2": {}, "host0": {"commands": ("ip neighbour flush to 10.77.0.11",)}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
