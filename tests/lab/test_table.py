"""The table itself: what it must hold, without running any of it."""

from __future__ import annotations

from distdoctor.judge.catalog import load
from tests.lab.cases import ALL_CASES
from tests.lab.cases.composites import COMPOSITES, FURTHER
from tests.lab.cases.healthy import SHAPES
from tests.lab.harness.torch_times import BY_CHECK
from tests.lab.test_faults import LIVE


def test_names_are_unique() -> None:
    for names in ([case.name for case in ALL_CASES], [shape.name for shape in SHAPES]):
        assert len(names) == len(set(names))


def test_every_root_is_a_check() -> None:
    known = {check.id for check in load()}
    assert {root.check for case in ALL_CASES for root in case.roots} <= known
    assert set(BY_CHECK) <= known


def test_every_root_has_a_time_of_plain_torch() -> None:
    assert {case.root for case in ALL_CASES if not case.torch} <= set(BY_CHECK)


def test_blamed_nodes_are_nodes_of_the_case() -> None:
    for case in ALL_CASES:
        names = [f"host{n}" for n in range(case.hosts)] if isinstance(case.hosts, int) else case.hosts
        known = {*names, *(f"node{n}" for n in range(len(names)))}
        known |= {f"{name}#{n}" for n, name in enumerate(names) if names.count(name) > 1}
        assert all(set(root.blamed) <= known for root in case.roots), case.name


def test_the_table_is_as_large_and_as_varied_as_promised() -> None:
    assert len(ALL_CASES) >= 60
    assert sum(len(case.roots) > 1 for case in ALL_CASES) >= 8
    assert {2, 3, 4, 5} <= {case.hosts for case in ALL_CASES if isinstance(case.hosts, int)}


def test_every_healthy_shape_is_in_one_composite() -> None:
    assert sorted(name for whole in COMPOSITES for name in whole.name.split(" + ")) == sorted(s.name for s in SHAPES)
    assert {whole.name for whole in COMPOSITES} >= FURTHER


def test_what_is_run_each_time_are_cases_and_every_way_of_starting_is_among_them() -> None:
    chosen = [case for case in ALL_CASES if case.name in LIVE]
    assert len(chosen) == len(LIVE)
    assert {case.style for case in chosen} == {case.style for case in ALL_CASES}
