"""mesh/connection-loss: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.links import Pairs, cut
from tests.facts_builder import blocking, failing, healthy, judged, with_host, with_meeting, with_mesh, with_network

CHECK = "mesh/connection-loss"
RULE = "meta iifname eth0 ct bytes > 20000 reject with tcp reset"
QUOTA = "ip saddr 10.77.0.0/24 quota drop"


def dead(pairs: Pairs, of: int, ruled: int | None = None, outcome: str = "reset") -> Facts:
    """These links worked and were then dead; the node ``ruled`` has a filter that says why."""
    facts = []
    for number, one in enumerate(cut(pairs, of, failed=False, outcome=outcome)):
        assert one.mesh is not None
        one = with_mesh(one, bad=tuple(replace(link, dead_after=16000) for link in one.mesh.bad))
        if number == ruled:
            one = with_network(one, firewall=blocking(RULE))
        facts.append(failing(one, "gloo", "Read error [10.77.0.11]:40000: Connection reset by peer"))
    return tuple(facts)


def alone() -> Facts:
    """Return what node 1 says that lost the store with the rest."""
    _, one, _ = dead([(1, 0), (1, 2)], 3)
    return (with_network(with_meeting(one, host_lost=True), master_name="host0"),)


def cut_from_the_store(there: bool = True) -> Facts:
    """Return what node 1 says that has no more than that, and whether the store is where it was."""
    _, one = healthy(2)
    lost = replace(one, mesh=None, ranks=tuple(replace(rank, stages=()) for rank in one.ranks))
    return (with_network(with_meeting(lost, host_lost=True, store_there=there), master_name="host0"),)


def unanswered(rule: str) -> Facts:
    """Node 1, for which nobody answers any more, has this rule; node 0's facts are not here."""
    (one,) = cut_from_the_store(there=False)
    return (with_network(with_meeting(one, store_unanswered=True), firewall=blocking(rule)),)


def never_reached() -> Facts:
    """A limit that nothing of this job comes to."""
    one, other = healthy(2)
    return one, with_network(other, firewall=blocking(RULE))


def out_of_sight(rule: str, told: bool = True) -> Facts:
    """Node 0, with such a rule, and node 1 (if it ``told``) lost sight of each other; no link was seen to be cut."""
    a, b = healthy(2)
    a = with_network(a, firewall=blocking(rule))
    return with_meeting(a, lost=(b.key,)), with_meeting(b, host_lost=told)


def at_work(rule: str, error: str = "ended after 17.1 s: it did not return") -> Facts:
    """The links are good, the collectives fail, and node 0 has this rule on its way out."""
    a, b = (failing(one, "collective", error) for one in healthy(2))
    return with_network(a, firewall=blocking(rule, hook="output")), b


def idle(seconds: str, waited: float = 22.2, policy: str = "drop") -> Facts:
    """gloo waits for host1, which forgets connections after so many seconds; and its filter's policy."""
    facts = [failing(one, "gloo", "ended after 22.2 s: it did not return") for one in healthy(2)]
    facts = [
        replace(
            one,
            ranks=tuple(replace(r, stages=(*r.stages[:-1], replace(r.stages[-1], seconds=waited))) for r in one.ranks),
        )
        for one in facts
    ]
    b = with_host(facts[1], sysctls={"net.netfilter.nf_conntrack_tcp_timeout_established": seconds})
    return facts[0], with_network(b, firewall=blocking(policy=policy))


def cut_by_its_rule(alone: bool = False) -> Facts:
    """Node 0 heard from host2 alone, whose store host1 had reached, and a rule of host1 drops by the amount."""
    a, b, c = healthy(3)
    b = replace(b, mesh=None, ranks=tuple(replace(rank, stages=()) for rank in b.ranks))
    b = with_network(with_meeting(b, host_lost=True, store_there=True), firewall=blocking(RULE), master_name="host0")
    a = with_meeting(a, arrived=(a.key, c.key), expected=3, ended=True)
    return (b,) if alone else (a, b, c)


LARGE = "meta oifname eth0 ct bytes > 100000 meta length > 600 drop"

ROWS = [
    Row("idle connections are forgotten", lambda: idle("1"), ("host1",), together=True),
    Row("cut from the store by its own rule", cut_by_its_rule, ("host1",)),
    Row("cut from the store by its own rule, alone", lambda: cut_by_its_rule(True), ("host1",), together=True),
    Row("silent in the collectives, by a rule", lambda: at_work(LARGE), ("host0",), together=True),
    Row("a quota that was used up", lambda: out_of_sight(QUOTA), ("host0",), alone=("store/node-lost",)),
    Row(
        "a quota, and who is behind it can no longer tell",
        lambda: out_of_sight(QUOTA, told=False),
        BOTH,
        blame="one-of",
        alone=("store/node-lost",),
    ),
    Row("reset, by a rule", lambda: dead([(0, 1)], 2, ruled=1), ("host1",), together=True),
    Row("reset, by what is between", lambda: dead([(0, 1)], 2), BOTH, blame="one-of", together=True),
    Row(
        "silent, one of 3",
        lambda: dead([(0, 1), (1, 0), (2, 1), (1, 2)], 3, outcome="stalled"),
        ("host1",),
        together=True,
    ),
    Row("cut from the store, which is there", cut_from_the_store, ("host1", "host0"), blame="one-of"),
    Row("a quota of its own, and no answer", lambda: unanswered(QUOTA), ("host1",), alone=("store/node-lost",)),
    Row("seen by the one that lost the others", alone, ("host1", "host0", "host2"), blame="one-of"),
]

LOOK_ALIKES = [
    LookAlike("forgotten after days", lambda: idle("432000"), "gloo/init-failed"),
    LookAlike("forgotten later than it was waited for", lambda: idle("30"), "gloo/init-failed"),
    LookAlike("forgotten, and a filter that shuts nothing", lambda: idle("1", policy="accept"), "gloo/init-failed"),
    LookAlike("more than was sent", lambda: at_work("ct bytes > 99000000000 drop"), "collective/failed"),
    LookAlike("for others", lambda: at_work("ip daddr 10.9.0.0/16 ct bytes > 100000 drop"), "collective/failed"),
    LookAlike("an error of a rank's own", lambda: at_work(LARGE, "RuntimeError: out of memory"), "collective/failed"),
    LookAlike("a quota for another host", lambda: out_of_sight("ip saddr 10.9.9.9 quota drop"), "store/node-lost"),
    LookAlike(
        "more than was sent, by one that was lost",
        lambda: out_of_sight("ct bytes > 99000000000 drop", told=False),
        "store/node-lost",
    ),
    LookAlike(
        "a quota for another host, and no answer", lambda: unanswered("ip saddr 10.9.9.9 quota drop"), "store/node-lost"
    ),
    LookAlike("the store is gone", lambda: cut_from_the_store(there=False), "store/node-lost"),
    LookAlike("a limit that is not reached", never_reached),
    LookAlike("large payloads only", lambda: cut([(0, 1)], 2, outcome="stalled"), "mesh/mtu-blackhole"),
    LookAlike(
        "cut before the node itself answered",
        lambda: cut([(0, 1), (1, 0)], 2, failed=False, outcome="reset"),
        "mesh/peer-ports-blocked",
    ),
]

CURES = [
    Cure(
        "by a rule",
        lambda: dead([(0, 1)], 2, ruled=1),
        {
            "host1": {
                "commands": ("nft insert rule inet filter input ip saddr '{ 10.77.0.10 }' meta l4proto tcp accept",)
            }
        },
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_node_0_names_it_of_one_that_went_out_of_sight_before_it_told_of_its_links() -> None:
    a, b, c = dead([(0, 1), (2, 1)], 3, ruled=1)
    result = judged(with_meeting(a, lost=(b.key,)), replace(b, mesh=None, ranks=()), c)
    assert [(one.check, one.nodes) for one in result.roots] == [(CHECK, ("host1",))]


def test_who_lost_the_others_did_so_for_the_connections_that_were_cut() -> None:
    a, b = dead([(0, 1)], 2, ruled=1)
    result = judged(with_meeting(a, lost=(b.key,)), with_meeting(b, host_lost=True))
    assert [one.check for one in result.roots] == [CHECK]
    assert "16000 bytes" in result.roots[0].summary
