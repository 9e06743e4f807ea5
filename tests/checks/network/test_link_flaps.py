"""network/link-flaps: what it finds, and what it leaves alone."""

from __future__ import annotations

import re

import pytest

from distdoctor.model.facts import KernelLine
from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.facts_builder import CHECKS, healthy, judged, with_host, with_meeting, with_network

CHECK = "network/link-flaps"


def lost(times: int, interface: str = "eth0", **more: str) -> Facts:
    text = f"e1000e 0000:06:00.0 {interface}: NIC Link is Down"
    lines = tuple(KernelLine(CHECK, "hint", text, 10.0 * n, {"interface": interface, **more}) for n in range(times))
    zero, one = healthy(2)
    return zero, with_host(one, kernel_log=lines)


def each_once(*parts: str) -> Facts:
    """Return what a bond is made of, each of which lost its link."""
    text = "eth0: (slave {}): link status definitely down, disabling slave"
    lines = tuple(
        KernelLine(CHECK, "hint", text.format(part), 10.0 * n, {"interface": part, "bond": "eth0"})
        for n, part in enumerate(parts)
    )
    zero, one = healthy(2)
    return zero, with_host(one, kernel_log=lines)


def during_the_check(**losses: int) -> Facts:
    zero, one = healthy(2)
    return zero, with_host(one, link_losses=losses)


def cut_off(number: int) -> Facts:
    """Node 0 or 1, whose card is down, lost the other one."""
    zero, one = healthy(2)
    node = (
        with_meeting(zero, lost=(one.key,)) if number == 0 else with_meeting(one, host_lost=True, store_unanswered=True)
    )
    node = with_host(node, link_losses={"eth0": 1}, links_down=("eth0",))
    return (node, one) if number == 0 else (node,)


ROWS = [
    Row("node 0's card is down", lambda: cut_off(0), ("host0",), alone=("store/node-lost",)),
    Row("the card of another node is down", lambda: cut_off(1), ("host1",)),
    Row("once, during the check", lambda: during_the_check(eth0=1), ("host1",), "warn", together=True),
    Row("often, during the check", lambda: during_the_check(eth0=4, eth7=9), ("host1",), "warn", together=True),
    Row(
        "one part of a bond, and not the other",
        lambda: each_once("ens1", "ens2", "ens1"),
        ("host1",),
        "warn",
        together=True,
    ),
    Row("a part of a bond", lambda: lost(2, "eth7", bond="eth0"), ("host1",), "warn", together=True),
    Row("three times", lambda: lost(3), ("host1",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike(
        "whose interface is not known",
        lambda: tuple(with_network(with_host(n, interfaces=(), gloo=None), primary=None) for n in lost(3)),
    ),
    LookAlike("once, as a cable is plugged in", lambda: lost(1)),
    LookAlike("each part of a bond once, as their switch is started anew", lambda: each_once("ens1", "ens2")),
    LookAlike("another card, during the check", lambda: during_the_check(eth7=3, docker0=2)),
    LookAlike("none, during the check", during_the_check),
    LookAlike("another bond", lambda: lost(3, "eth7", bond="bond1")),
    LookAlike("another card", lambda: lost(3, "eth7")),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_a_card_that_is_up_again_does_not_explain_a_lost_node() -> None:
    zero, one = cut_off(0)
    result = judged(with_host(zero, links_down=()), one)
    assert {(root.check, root.severity, root.nodes) for root in result.roots} == {
        ("store/node-lost", "fail", ("host1",)),
        (CHECK, "warn", ("host0",)),
    }


@pytest.mark.parametrize(
    ("line", "interface"),
    [
        ("e1000e: eth4 NIC Link is Down", "eth4"),
        ("ixgbe 0000:81:00.0 ens1f0: NIC Link is Down", "ens1f0"),
        ("mlx5_core 0000:3b:00.0 enp59s0f0np0: Link down", "enp59s0f0np0"),
        ("bnxt_en 0000:19:00.0 eno1np0: NIC Link is Down", "eno1np0"),
        ("tg3 0000:02:00.0 eth0: Link is down", "eth0"),
        ("bond0: (slave ens5): link status definitely down, disabling slave", "ens5"),
        ("bond0: link status definitely down for interface eth1, disabling it", "eth1"),
        ("mlx4_en: enp1s0: Link Down", "enp1s0"),
        ("[qede_link_update:2437(ens3f0)]Link is down", "ens3f0"),
        ("e1000e: eth4 NIC Link is Up 1000 Mbps Full Duplex", None),
        ("IPv6: ADDRCONF(NETDEV_UP): eth4: link is not ready", None),
    ],
)
def test_the_interface_in_the_kernels_words(line: str, interface: str | None) -> None:
    (check,) = (one for one in CHECKS if one.id == CHECK)
    ways = [found.groupdict() for one in check.log if (found := re.search(one.pattern, line))]
    assert [way.get("interface") for way in ways] == ([interface] if interface else [])
