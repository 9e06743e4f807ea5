"""No false alarm: healthy clusters in odd shapes pass.

Here many odd things at once; each shape alone with ``-m scoreboard`` or in ``make healthy``.
"""

from __future__ import annotations

import shlex
import time

import pytest

from tests.lab.cases.composites import COMPOSITES, FURTHER
from tests.lab.cases.healthy import SHAPES
from tests.lab.harness.cluster import Cluster
from tests.lab.harness.launch import DISTDOCTOR
from tests.lab.harness.shape import Shape, run_shape

pytestmark = [pytest.mark.timeout(150)]


@pytest.mark.long
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(shape, id=shape.name, marks=[pytest.mark.scoreboard] if shape.name in FURTHER else [])
        for shape in COMPOSITES
    ],
)
def test_healthy_in_many_ways(shape: Shape) -> None:
    wrong, run = run_shape(shape)
    assert wrong == [], run.describe()


@pytest.mark.scoreboard
@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_healthy(shape: Shape) -> None:
    wrong, run = run_shape(shape)
    assert wrong == [], run.describe()


def test_the_announced_line_is_all_that_the_other_node_needs() -> None:
    """Node 0 prints the line for the others; run there as it stands, both pass."""
    with Cluster(2) as cluster:
        first = cluster[0].popen([*DISTDOCTOR, "check", "--nnodes", "2", "--wait", "30"])
        assert first.stderr is not None
        said, line = [], None
        deadline = time.monotonic() + 20
        while line is None and time.monotonic() < deadline and (text := first.stderr.readline()):
            said.append(text)
            if "--master-addr" in text:
                line = text.strip()
        assert line is not None, said
        assert "10.77.0.10" in shlex.split(line) and "--node-rank" not in line
        second = cluster[1].sh(line)
        assert second.returncode == 0, (line, second)
        out, err = first.communicate(timeout=30)
        assert first.returncode == 0, (said, out, err)
        assert cluster.leftovers() == []
