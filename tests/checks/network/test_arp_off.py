"""network/arp-off: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distdoctor.model.facts import Link, NodeFacts
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import (
    blocking,
    healthy,
    outside,
    waited_in_vain,
    with_host,
    with_master,
    with_mesh,
    with_network,
)

CHECK = "network/arp-off"
NOARP: dict[str, Any] = {"no_arp": True}
DEAF: dict[str, Any] = {"arp_ignore": 8}
SILENT: dict[str, Any] = {"outcome": "no-answer", "control": "no-answer"}


def carded(one: NodeFacts, **changes: Any) -> NodeFacts:
    """The node with an Ethernet card for eth0, and these settings of it."""
    assert one.host is not None
    lo, eth0 = one.host.interfaces
    return with_host(one, interfaces=(lo, replace(eth0, mac="02:00:00:00:00:0a", **changes)))


def master(how: dict[str, Any], **seen: Any) -> Facts:
    """host1 does not get to node 0, whose card is so."""
    a, b = healthy(2)
    return carded(waited_in_vain(a), **how), outside(b, **(seen or {"outcome": "unreachable", "errno": 113}))


def link(to: NodeFacts, address: str, outcome: Any = "unreachable") -> Link:
    return Link(to.key, address, 40000, ("gloo", "primary"), outcome, 113 if outcome == "unreachable" else None)


def peer(how: dict[str, Any]) -> Facts:
    """host2 does not get to host1, whose card is so."""
    a, b, c = healthy(3)
    return a, carded(b, **how), with_mesh(c, bad=(link(b, "10.77.0.11"),))


def without_arp() -> Facts:
    """host1 gets to nobody, and nobody to it."""
    a, b, c = healthy(3)
    return a, carded(outside(b, **SILENT), **NOARP), c


def alone() -> Facts:
    return (carded(outside(healthy(2)[1], **SILENT), **NOARP),)


def filtered() -> Facts:
    """Node 0 drops the port, too."""
    a, b = master(DEAF, outcome="no-answer", control="refused")
    return with_network(a, firewall=blocking("tcp dport 29500 drop")), b


def in_another_network() -> Facts:
    """host1 sends by a gateway: that one is asked, and not host0."""
    a, b = master(DEAF)
    assert b.host is not None
    lo, eth0 = b.host.interfaces
    return a, with_host(b, interfaces=(lo, replace(eth0, addresses=("10.88.0.11",))))


def tunnel() -> Facts:
    """Without a hardware address there is nothing to ask for."""
    a, b = master(NOARP)
    assert a.host is not None
    lo, eth0 = a.host.interfaces
    return with_host(a, interfaces=(lo, replace(eth0, mac=""))), b


def lucky(how: dict[str, Any]) -> Facts:
    """Every connection was made."""
    a, b = healthy(2)
    return carded(a, **how), b


def unanswered() -> Facts:
    """host1 gets no answer of node 0, which does not know where to send it."""
    a, b, c = healthy(3)
    return a, carded(outside(b, **SILENT), **DEAF), c


def apart() -> Facts:
    """host1 is in another network."""
    a, b = lucky(DEAF)
    assert b.host is not None
    lo, eth0 = b.host.interfaces
    return a, with_host(b, interfaces=(lo, replace(eth0, addresses=("10.88.0.11",))))


def floating(how: int, at: str = "10.77.0.50", outcome: str = "unreachable") -> Facts:
    """MASTER_ADDR is an address on lo of node 0, which answers for it on eth0 or, by arp_ignore, does not."""
    a, b = healthy(2)
    a, b = with_master(carded(a, arp_ignore=how), at, own=True), with_master(b, at)
    assert a.host is not None
    lo, eth0 = a.host.interfaces
    lo = replace(lo, addresses=("127.0.0.1", at), prefix_lengths=(8, 32))
    return waited_in_vain(with_host(a, interfaces=(lo, eth0))), outside(b, outcome, errno=113)


ROWS = [
    Row("node 0 answers for its card alone, and the master is on lo", lambda: floating(1), ("host0",), together=True),
    Row("the same for askers of its network", lambda: floating(2), ("host0",), together=True),
    Row("node 0 answers no request", lambda: master(DEAF), ("host0",), together=True),
    Row("node 0 has no ARP", lambda: master(NOARP), ("host0",), together=True),
    Row("nor is it waited for", lambda: master(DEAF, **SILENT), ("host0",), together=True),
    Row("host1 answers no request of host2", lambda: peer(DEAF), ("host1",), together=True),
    Row("host1 has no ARP", without_arp, ("host1",), together=True),
    Row("by its own word", alone, ("host1",)),
    Row("the answers do not find it", unanswered, ("host1",), together=True),
    Row("it was asked by luck", lambda: lucky(DEAF), ("host0",), "warn", together=True),
]  # fmt: skip

LOOK_ALIKES = [
    LookAlike("no peer is in its network", apart),
    LookAlike("a card without ARP that reaches all", lambda: lucky(NOARP)),
    LookAlike("it answers for its own address", lambda: master({"arp_ignore": 1}), "network/master-unreachable"),
    LookAlike("it answers for all of its addresses", lambda: floating(0), "network/master-unreachable"),
    LookAlike("nobody asks its card for that one", lambda: floating(1, "10.99.0.50"), "network/master-unreachable"),
    LookAlike("a packet filter", filtered, "network/port-filtered"),
    LookAlike("behind a gateway", in_another_network, "network/master-unreachable"),
    LookAlike("a tunnel", tunnel, "network/master-unreachable"),
]  # fmt: skip

CURES = [
    Cure(
        "it answers",
        lambda: master(DEAF),
        {"host0": {"commands": ("sysctl -w net.ipv4.conf.all.arp_ignore=0 net/ipv4/conf/eth0/arp_ignore=0",)}},
        only=True,
        unsaid=("firewall",),
    ),
    Cure("ARP is switched on", alone, {"host1": {"commands": ("ip link set dev eth0 arp on",)}}, only=True),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
