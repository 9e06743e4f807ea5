"""Start lines of engines in healthy clusters, live."""

from __future__ import annotations

import pytest

from tests.lab.cases.engines import SHAPES
from tests.lab.harness.shape import Shape, run_shape

pytestmark = [pytest.mark.long, pytest.mark.scoreboard, pytest.mark.timeout(240)]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_healthy(shape: Shape) -> None:
    assert run_shape(shape)[0] == []
