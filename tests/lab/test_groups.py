"""Faults of groups beside the default one, named exactly and cured; healthy meshes pass."""

from __future__ import annotations

import pytest

from tests.lab.cases import groups
from tests.lab.harness.case import Case
from tests.lab.harness.examine import check_case, unfit
from tests.lab.harness.shape import Shape, run_shape

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]
EACH_TIME = {"a mesh of 8 ranks for 4", "the switch drops the new connections of a second group"}
"""What is run each time; the others with ``-m scoreboard``."""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[] if case.name in EACH_TIME else [pytest.mark.scoreboard])
        for case in groups.CASES
    ],
)
def test_fault(case: Case) -> None:
    if reason := unfit(case.needs):
        pytest.skip(reason)
    assert check_case(case) == []


@pytest.mark.scoreboard
@pytest.mark.parametrize("shape", groups.SHAPES, ids=lambda shape: shape.name)
def test_healthy(shape: Shape) -> None:
    wrong, run = run_shape(shape)
    assert wrong == [], run.describe()
