"""mesh/mtu-blackhole: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import Firewall, FirewallChain
from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, fixes, found, left_alone, on_each
from tests.clusters.links import Pairs, cut, into, measured, out_of
from tests.facts_builder import blocking, failing, healthy, judged, with_host, with_network

CHECK = "mesh/mtu-blackhole"


def stalled(pairs: Pairs, of: int, mtus: tuple[int, ...] = (), rule: tuple[int, str] | None = None) -> Facts:
    """Large payloads stall in these directions."""
    facts = list(cut(pairs, of, failed=False, outcome="stalled"))
    for number, one in enumerate(facts):
        assert one.mesh is not None and one.host is not None
        one = replace(one, mesh=replace(one.mesh, bad=tuple(replace(k, payload=4000) for k in one.mesh.bad)))
        if mtus:
            assert one.host is not None
            changed = tuple(replace(i, mtu=mtus[number]) if i.name == "eth0" else i for i in one.host.interfaces)
            one = with_host(one, interfaces=changed)
            one = replace(one, ranks=healthy(of)[number].ranks)
        if rule is not None and rule[0] == number:
            one = with_network(one, firewall=blocking(rule[1]))
        facts[number] = failing(one, "collective", "Timed out waiting 15000ms for recv operation to complete")
    return tuple(facts)


def jumbo() -> Facts:
    facts = []
    for one in healthy(3):
        assert one.host is not None
        facts.append(with_host(one, interfaces=tuple(replace(i, mtu=9000) for i in one.host.interfaces)))
    return tuple(facts)


def filtered_by_length() -> Facts:
    """A rule about lengths that no packet of the job meets."""
    chain = FirewallChain("nft", "inet", "filter", "input", "input", "accept", ("meta length > 9000 drop",))
    return tuple(with_network(one, firewall=Firewall(True, chains=(chain,))) for one in healthy(2))


ROWS = [
    Row(
        "large packets, by rule",
        lambda: stalled([(0, 1)], 2, rule=(1, "meta length > 1294 drop")),
        ("host1",),
        together=True,
    ),
    Row("large packets, jumbo", lambda: stalled([(0, 1), (1, 0)], 3, (9000, 9000, 1500)), BOTH, together=True),
    Row(
        "jumbo frames, the way to one of 5",
        lambda: stalled(into(3, 5) | out_of(3, 5), 5, (9000,) * 5),
        ("host3",),
        together=True,
    ),
    Row("large packets, no rule", lambda: stalled([(1, 0)], 2, (1500, 1500)), BOTH, blame="one-of", together=True),
    Row("large packets to one of 3", lambda: stalled([(0, 2), (1, 2)], 3), ("host2",), together=True),
]

LOOK_ALIKES = [LookAlike("jumbo frames everywhere", jumbo), LookAlike("rule about lengths", filtered_by_length)]

CURES = [
    Cure(
        "jumbo frames",
        lambda: stalled([(0, 1), (1, 0)], 3, (9000, 9000, 1500)),
        on_each(BOTH, {"commands": ("ip link set dev eth0 mtu 1500",)}),
    ),
    Cure(
        "jumbo frames, the way to one",
        lambda: stalled(into(3, 5), 5, (9000,) * 5),
        {"host3": {"commands": ("ip link set dev eth0 mtu 1500",)}},
    ),
    Cure(
        "a tunnel somewhere",
        lambda: stalled([(0, 2), (1, 2)], 3, (1500, 1500, 1500)),
        {"host2": {"commands": ("ip link set dev eth0 mtu 1280",)}},
    ),
    Cure(
        "filter by length",
        lambda: stalled([(0, 1)], 2, rule=(1, "meta length > 1294 drop")),
        {
            "host1": {
                "commands": (
                    "nft insert rule inet filter input ip saddr '{ 10.77.0.10, 10.77.0.11 }' meta l4proto tcp accept",
                )
            }
        },
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_two_ends_are_two_options() -> None:
    """Where it cannot be told which end it is, one end after the other."""
    for facts in (stalled([(1, 0)], 2, (1500, 1500)), measured(2, slow=[(1, 0)])):
        assert [(fix.option, fix.nodes) for fix in fixes(*facts)] == [(1, ("host0",)), (2, ("host1",))]


def test_the_mtu_of_each_end_is_shown() -> None:
    (root,) = judged(*stalled([(0, 1), (1, 0)], 3, (9000, 9000, 1500))).roots
    assert "host0: the MTU of eth0 is 9000" in root.evidence
    assert "payloads of 4000 bytes never arrive" in root.summary
