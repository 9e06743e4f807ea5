"""The table: named exactly, in time, and cured by the printed fix.

Here the first case of every root, so that each check is provoked for real; all of them with ``-m scoreboard`` or in
``make scoreboard``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.cases import ALL_CASES
from tests.lab.harness.case import Case
from tests.lab.harness.examine import check_case, unfit


def rows() -> Iterator[object]:
    """Every case; those whose roots an earlier one has already are marked ``scoreboard``."""
    seen: set[frozenset[str]] = set()
    for case in ALL_CASES:
        # One of those with two faults at once stands for all of them.
        roots = frozenset({case.root} if len(case.roots) == 1 else {"two faults"})
        further = roots in seen
        seen.add(roots)
        yield pytest.param(case, id=case.name, marks=[pytest.mark.scoreboard] if further else [])


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("case", list(rows()))
def test_fault(case: Case) -> None:
    if reason := unfit(case.needs):
        pytest.skip(reason)
    assert check_case(case) == []
