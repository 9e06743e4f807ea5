"""Healthy meshes pass, with further groups, too."""

from __future__ import annotations

import pytest

from tests.lab.cases import groups
from tests.lab.harness.shape import Shape, run_shape

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]


@pytest.mark.scoreboard
@pytest.mark.parametrize("shape", groups.SHAPES, ids=lambda shape: shape.name)
def test_healthy(shape: Shape) -> None:
    wrong, run = run_shape(shape)
    assert wrong == [], run.describe()
