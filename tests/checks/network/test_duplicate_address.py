"""network/duplicate-address: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import AddressChoice, HardwareAddress, Interface, Link, Resolution, TableRoute
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import blocking, healthy, node, outside, waited_in_vain, with_host, with_mesh, with_network

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


ROWS = [
    Row("surplus", surplus, ("host2",), together=True),
    Row("cloned", cloned, ("host2", "host1"), blame="one-of", alone=("network/port-filtered",)),
    Row(
        "a stranger",
        lambda: stranger(Answered("10.77.0.10", MACX, "eth0")),
        ("host0",),
        alone=("network/port-refused",),
    ),
]

LOOK_ALIKES = [
    LookAlike("a second address", lambda: also("10.77.0.99")),
    LookAlike("a second address on the same interface", lambda: also("10.77.0.99", interface="eth0")),
    LookAlike(
        "a bridge for containers", lambda: also("10.77.0.11", interface="docker0", length=16), "network/wrong-interface"
    ),
    LookAlike("a service's address", lambda: also("10.77.0.11", length=32), "network/wrong-interface"),
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
    Cure("surplus", surplus, {"host2": {"commands": ("ip address del 10.77.0.11/24 dev eth1",)}}, only=True),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
