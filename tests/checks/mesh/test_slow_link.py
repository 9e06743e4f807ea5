"""mesh/slow-link: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from tests.checks.row import BOTH, Facts, LookAlike, Row, found, left_alone, root
from tests.clusters.links import FAST, into, measured, out_of
from tests.clusters.routes import LAN, route, routed
from tests.facts_builder import failing, judged

CHECK = "mesh/slow-link"


def receiver_limited() -> Facts:
    """A receiver that does not keep up: its host is loaded, its link is not slow."""
    facts = []
    for one in measured(3, slow=into(2, 3), busy=1.0):
        assert one.mesh is not None
        rates = tuple(
            replace(r, receiver_limited=0.9) if (r.bytes_per_second or 0) < FAST else r for r in one.mesh.rates
        )
        facts.append(replace(one, mesh=replace(one.mesh, rates=rates)))
    return tuple(facts)


def uneven_speeds(*factors: float) -> Facts:
    """Links of different speeds, none of them far below the others."""
    facts = []
    for one, factor in zip(measured(len(factors)), factors, strict=True):
        assert one.mesh is not None
        rates = tuple(replace(r, bytes_per_second=FAST * factor, delivery_rate=None) for r in one.mesh.rates)
        facts.append(replace(one, mesh=replace(one.mesh, rates=rates, rate_median=FAST * factor)))
    return tuple(facts)


def behind_a_router() -> Facts:
    """host2 is in another network; what it sends and gets goes by a router."""
    a, b, c = measured(3, slow=into(2, 3) | out_of(2, 3))
    way = route("0.0.0.0/0", "10.77.0.1")
    c = routed(c, route("10.77.0.12/32"), way)
    return (*(routed(one, route(LAN), route("10.77.0.12/32", "10.77.0.1")) for one in (a, b)), c)


def starving(error: str = "ended after 17.1 s: it did not return") -> Facts:
    """So slow that collectives do not end in their time."""
    return tuple(failing(one, "collective", error) for one in measured(2, slow=[(1, 0)], speed=2e4))


ROWS = [
    Row("too slow for the collectives", starving, BOTH, blame="one-of", together=True),
    Row("slow, by a router", behind_a_router, ("host2",), "warn", "one-of", together=True),
    Row("slow, two nodes", lambda: measured(2, slow=[(1, 0)]), BOTH, "warn", "one-of", together=True),
    Row("slow, one node's way out", lambda: measured(3, slow=out_of(1, 3)), ("host1",), "warn", together=True),
    Row("slow, one node", lambda: measured(4, slow=into(3, 4) | out_of(3, 4)), ("host3",), "warn", together=True),
    Row(
        "slow, one pair",
        lambda: measured(4, slow=[(1, 2), (2, 1)]),
        ("host1", "host2"),
        "warn",
        "one-of",
        together=True,
    ),
    Row("slow on a busy machine", lambda: measured(3, slow=out_of(2, 3), busy=1.0), ("host2",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("measured", lambda: measured(4)),
    LookAlike("measured, busy", lambda: measured(3, busy=1.0)),
    LookAlike("slower on a busy machine", lambda: measured(3, slow=out_of(2, 3), busy=1.0, speed=9e7)),
    LookAlike("two nodes, 100 Mbit/s", lambda: measured(2, slow=[(0, 1), (1, 0)], speed=1.1e7)),
    LookAlike("receiver that does not keep up", receiver_limited),
    LookAlike("10 and 40 Gbit/s", lambda: uneven_speeds(1.0, 0.5, 0.25)),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_a_router_by_which_all_of_it_goes_is_told() -> None:
    one = root(*behind_a_router())
    assert "router 10.77.0.1 on the route may be the slow part" in one.summary
    assert [fix.option for fix in one.fixes] == [1, 2] and "10.77.0.1" in one.fixes[1].text


def test_a_link_is_slow_for_what_is_lost_on_it_either_way() -> None:
    for lossy in (into(2, 3), out_of(2, 3)):
        found_too = judged(*measured(3, slow=out_of(2, 3), lossy=lossy)).findings
        assert [one.check for one in found_too] == ["mesh/packet-loss"]
    elsewhere = judged(*measured(4, slow=[(2, 3), (3, 2)], lossy=[(0, 1), (1, 0)])).findings
    assert {one.check for one in elsewhere} == {"mesh/packet-loss", CHECK}


def test_a_link_that_loses_packets_and_starves_the_collectives_is_still_told() -> None:
    error = "ended after 17.1 s: it did not return"
    facts = (failing(one, "collective", error) for one in measured(2, slow=[(1, 0)], lossy=[(1, 0)], speed=2e4))
    assert (CHECK, "fail") in [(one.check, one.severity) for one in judged(*facts).findings]


def test_a_rank_that_failed_of_its_own_did_not_wait_for_the_link() -> None:
    roots = judged(*starving("RuntimeError: out of memory")).roots
    assert [(one.check, one.severity) for one in roots] == [("collective/failed", "fail"), (CHECK, "warn")]
