"""Start lines of engines, live: faults named exactly and cured by the printed fix, and healthy clusters."""

from __future__ import annotations

import pytest

from tests.lab.cases.engines import CASES, SHAPES
from tests.lab.harness.case import Case
from tests.lab.harness.examine import check_case
from tests.lab.harness.shape import Shape, run_shape

pytestmark = [pytest.mark.long, pytest.mark.scoreboard, pytest.mark.timeout(240)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_fault(case: Case) -> None:
    assert check_case(case) == []


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_healthy(shape: Shape) -> None:
    assert run_shape(shape)[0] == []
