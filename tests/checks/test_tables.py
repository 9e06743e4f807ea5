"""Every check has a test file, with a row that finds it and a look-alike that does not have it."""

from __future__ import annotations

import pytest

from distdoctor.judge.catalog import Check
from distdoctor.judge.engine import OF_CALLS
from distdoctor.judge.uncollected import NotCollected, only_collected
from distdoctor.model.cluster import build
from tests.checks.tables import MODULES, file_of
from tests.facts_builder import CHECKS
from tests.logs.wordings import CAUSES

JUDGING = [check for check in CHECKS if not check.of_logs_alone]
"""Those that judge facts; what only logs show has its lines in tests/logs."""
IDS = [check.id for check in JUDGING if check.stage not in OF_CALLS]


@pytest.mark.parametrize("check", IDS)
def test_a_check_has_a_test_file_with_a_row_and_a_look_alike(check: str) -> None:
    module = MODULES.get(check)
    assert module is not None, f"there is no {file_of(check)} for it with CHECK = {check!r}"
    assert module.ROWS and hasattr(module, "test_found")
    assert module.LOOK_ALIKES and hasattr(module, "test_left_alone")
    assert file_of(check).samefile(str(module.__file__))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_nothing_is_left_to_do(check: Check) -> None:
    """As scripts/new-check lays it out, there is."""
    for path in (check.path, *([] if check.of_logs_alone else [file_of(check.id)])):
        assert [line for line in path.read_text().splitlines() if "TODO" in line] == [], path
    assert [line for name, line in CAUSES if name == check.id and "TODO" in line] == [], "tests/logs/wordings"


@pytest.mark.parametrize("check", [check.id for check in JUDGING if check.stage in OF_CALLS])
def test_a_check_of_a_run_from_one_place_has_a_test_file(check: str) -> None:
    """It judges no facts of nodes, of which the tables are."""
    assert file_of(check).exists()


def test_each_test_file_is_of_a_check() -> None:
    assert set(MODULES) == set(IDS)


@pytest.mark.parametrize("check", [check for check in JUDGING if check.id in IDS], ids=lambda check: check.id)
def test_it_reads_only_variables_that_are_collected(check: Check) -> None:
    """One that no node collects would look unset everywhere, and the check clear."""
    module = MODULES[check.id]
    for one in (*module.ROWS, *module.LOOK_ALIKES):
        try:
            [*check.judge(only_collected(build(one.facts()), check.variables, iterable=True))]
        except NotCollected as err:
            pytest.fail(f"{one.name}: {err}")
