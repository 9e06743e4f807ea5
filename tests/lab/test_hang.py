"""Jobs that hang for real: ``distdoctor hang`` names who holds them, and they go on as if nobody had looked.

The jobs run side by side, each through all of its rows that are asked for: here those of ``LIVE``, all with ``-m
scoreboard`` or in ``make hang``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.hang.examine import Result, run_all
from tests.lab.hang.row import Row
from tests.lab.hang.table import ALL_JOBS, ROWS

LIVE = {
    "static: rank 1 never calls init": "before the process group is there, by what the store holds",
    "static: it trains": "a healthy job",
    "static: rank 2 is stopped": "in training, by what the operating system shows",
}
"""What each of them stands for, by name."""


def rows() -> Iterator[object]:
    """Every row; those that are only run when all are asked for are marked ``scoreboard``."""
    for row in ROWS:
        yield pytest.param(row, id=row.name, marks=[] if row.name in LIVE else [pytest.mark.scoreboard])


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> list[Result]:
    """What came of every row that is asked for, from one run of all their jobs."""
    asked = [item.name for item in request.session.items if item.path == request.path]
    return run_all(ALL_JOBS, {row.name for row in ROWS if any(row.name in name for name in asked)})


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("row", rows())
def test_row(row: Row, results: list[Result]) -> None:
    mine = [result for result in results if result.row is row]
    assert mine
    assert [(result.look, complaint) for result in mine for complaint in result.complaints] == []


def test_the_table_is_as_large_as_it_should_be() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert sum(row.moves for row in ROWS) >= 8
    assert sum(not row.moves for row in ROWS) >= 30
