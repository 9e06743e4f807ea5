"""Failures that are certain between the stages: judged by no more checks than needed, and never by ignored ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from distdoctor.judge.catalog import Check
from distdoctor.model.cluster import Cluster, build
from distdoctor.model.findings import Finding
from distdoctor.model.plan import Plan
from distdoctor.model.stages import ALONE
from distdoctor.session.leader.roll_call import EarlyVerdict
from distdoctor.session.options import Options
from tests.checks.environment.test_duplicate_node_rank import two_node_1
from tests.checks.gloo.test_loopback_address import loopback_both
from tests.checks.network.test_no_route import behind_nat, mask_of_one_of_three
from tests.facts_builder import CHECKS, healthy

LOOPBACK = "gloo/loopback-address"


class Counted:
    """The checks, and how often each is judged."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.checks = tuple(replace(check, judge=self._counting(check)) for check in CHECKS)

    def _counting(self, check: Check):  # type: ignore[no-untyped-def]
        def judge(cluster: Cluster) -> Iterable[Finding]:
            self.times[check.id] += 1
            return check.judge(cluster)

        return judge


def test_what_is_ignored_dooms_nothing() -> None:
    cluster = build(loopback_both())
    assert EarlyVerdict(Options(Plan(), CHECKS)).doomed(cluster, "network")
    assert EarlyVerdict(Options(Plan(), CHECKS)).fails(cluster, "gloo")
    ignoring = EarlyVerdict(Options(Plan(), CHECKS, ignore=(LOOPBACK, "gloo/init-failed", "*/failed", "barrier/*")))
    assert not ignoring.doomed(cluster, "network") and not ignoring.fails(cluster, "gloo")


def test_links_that_the_kernel_knows_no_route_for_fail_like_those_that_are_silent() -> None:
    """gloo would only wait for them; a link that the job does not need keeps nothing from being tried."""
    foreseen = EarlyVerdict(Options(Plan(), CHECKS))
    assert foreseen.fails(build(mask_of_one_of_three()), "mesh")
    assert not foreseen.fails(build(mask_of_one_of_three()), "gloo")
    assert not foreseen.fails(build(behind_nat("172.28.0.2")), "mesh")


def test_plans_that_contradict_each_other_are_found_by_the_checks_of_the_environment_alone() -> None:
    counted = Counted()
    foreseen = EarlyVerdict(Options(Plan(), counted.checks))
    assert not foreseen.conflicts(build(healthy(2)))
    assert {check.partition("/")[0] for check in counted.times} == {"environment"}
    assert foreseen.conflicts(build(two_node_1()))


def test_a_healthy_climb_judges_each_check_at_most_as_often_as_its_facts_change() -> None:
    counted = Counted()
    foreseen, cluster = EarlyVerdict(Options(Plan(), counted.checks)), build(healthy(2))
    for after in ("network", "mesh", "gloo", "barrier"):
        assert not foreseen.doomed(cluster, after)
    alone = {times for check, times in counted.times.items() if check.partition("/")[0] in ALONE}
    assert alone == {2}, "what each node sees alone: when they met, and once the links are known"


def test_what_is_known_to_fail_is_not_asked_again() -> None:
    counted = Counted()
    foreseen, cluster = EarlyVerdict(Options(Plan(), counted.checks)), build(loopback_both())
    assert foreseen.doomed(cluster, "network")
    before = counted.times.total()
    assert foreseen.doomed(cluster, "store") and counted.times.total() == before
