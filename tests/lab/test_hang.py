"""Jobs that hang for real: ``distdoctor hang`` names who holds them, and they go on as if nobody had looked.

The jobs run side by side, each through all of its rows that are asked for: here those of ``LIVE``, all with ``-m
scoreboard`` or in ``make hang``.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.helpers.report_schema import report_in
from tests.lab.hang.examine import Result, run_all
from tests.lab.hang.row import Job, Row
from tests.lab.hang.running import Running
from tests.lab.hang.table import ALL_JOBS, ROWS
from tests.lab.harness.cluster import Cluster
from tests.lab.harness.launch import DISTDOCTOR
from tests.lab.harness.namespaces import why_not
from tests.lab.harness.runner import roots

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
    """Return what came of every row that is asked for, from one run of all their jobs."""
    asked = [item.name for item in request.session.items if item.path == request.path]
    return run_all(ALL_JOBS, {row.name for row in ROWS if any(row.name in name for name in asked)})


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("row", rows())
def test_row(row: Row, results: list[Result]) -> None:
    mine = [result for result in results if result.row is row]
    assert mine
    assert [(result.look, complaint) for result in mine for complaint in result.complaints] == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_check_that_meets_such_a_job_on_its_port_points_to_hang() -> None:
    """Whether its store answers, or its host was stopped; and what it points to names who holds the job."""
    if reason := why_not():
        pytest.skip(reason)
    flags = ["--nnodes", "2", "--node-rank", "0", "--master-addr", "host0", "--wait", "5", "--json"]
    with Cluster(2) as cluster:
        running = Running(Job("held", ("init", "sleep@1:s"), hosts=1), cluster)
        running.start(0)
        running.wait_for(1, {0, 1}, 180)
        with ExitStack() as after:
            for check, holds in (
                ("store/foreign-store", ("process/waiting-in-user-code", [1])),
                ("network/port-in-use", ("process/stopped", [0])),
            ):
                report = report_in(cluster[0].run([*DISTDOCTOR, "check", *flags], timeout=120).stdout)
                (found,) = (one for one in roots(report) if one["severity"] == "fail")
                assert found["check"] == check
                (pid,) = re.findall(r"`distdoctor hang --pid (\d+)`", " ".join(found["evidence"]))
                named = report_in(cluster[0].run([*DISTDOCTOR, "hang", "--json", "--pid", pid], timeout=60).stdout)
                assert holds in [(one["check"], one["ranks"]) for one in roots(named)]
                if holds[1] == [1]:
                    running.signal(0, signal.SIGSTOP)
                    after.callback(running.go_on, 0)


def test_the_table_is_as_large_as_it_should_be() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert sum(row.moves for row in ROWS) >= 8
    assert sum(not row.moves for row in ROWS) >= 30
