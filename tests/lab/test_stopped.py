"""A doctor that is stopped for some seconds or ended, at different moments: nothing is then said of blocked ports."""

from __future__ import annotations

import signal

import pytest

from tests.lab.faults.processes import killed_doctor, stopped_doctor
from tests.lab.harness.cluster import Cluster
from tests.lab.harness.launch import Launch
from tests.lab.harness.runner import run

pytestmark = [pytest.mark.timeout(120), pytest.mark.long]
HONEST = {"store/node-lost"}
"""It went silent for longer than a node may, and that is what was seen; nothing is said of the network."""


@pytest.mark.parametrize(
    ("on", "after"),
    [
        pytest.param(on, after, marks=[] if (on, after) == (0, 0.1) else [pytest.mark.scoreboard])
        for on in (0, 1)
        for after in (0.0, 0.1, 0.4)
    ],
)
def test_five_seconds_of_silence_are_no_blocked_port(on: int, after: float) -> None:
    with Cluster(2) as cluster:
        launch = Launch(cluster, nproc=1, check_flags=("--wait", "30"))
        stopped_doctor(on, 5.0, after)(launch)
        done = run(launch)
    assert done.diagnosis is not None
    for report in [*(one.report for one in done.ended if one.report), done.diagnosis]:
        found = {finding["check"] for finding in report["findings"] if finding["because_of"] is None}
        assert found <= HONEST, done.describe()
        assert report["verdict"] == "pass" if not found else report["verdict"] in ("fail", "incomplete")


def test_eight_seconds_of_silence_are_waited_for() -> None:
    """Its kernel still accepts for it: nobody went away, and torch would have gone on, too. A link to it may have been
    measured in vain."""
    with Cluster(2) as cluster:
        launch = Launch(cluster, nproc=1, check_flags=("--wait", "30"))
        stopped_doctor(1, 8.0, 0.0)(launch)
        done = run(launch)
    assert done.diagnosis is not None
    for report in [*(one.report for one in done.ended if one.report), done.diagnosis]:
        assert report["verdict"] in ("pass", "incomplete") and not report["findings"], done.describe()


@pytest.mark.scoreboard
def test_one_that_stays_stopped_with_its_store_stands_still() -> None:
    """As with Ctrl-Z on node 0: the other cannot tell that the job would fail, nor that node 0 went away."""
    with Cluster(2) as cluster:
        launch = Launch(cluster, nproc=1, check_flags=("--wait", "30"))
        stopped_doctor(0, 12.0, 0.2, whole=True)(launch)
        done = run(launch)
    report = done.ended[1].report
    assert report is not None and report["verdict"] == "incomplete", done.describe()
    (root,) = report["findings"]
    assert (root["check"], root["nodes"]) == ("store/node-lost", ["host0"]), done.describe()
    assert "makes no progress" in root["summary"]


def test_one_that_a_signal_ended_is_told_by_the_others_with_the_signal() -> None:
    """Its own report says what was known then; that the job would fail nobody has seen."""
    with Cluster(3) as cluster:
        launch = Launch(cluster, nproc=1, check_flags=("--wait", "30"))
        killed_doctor(2, signal.SIGTERM)(launch)
        done = run(launch)
    assert done.diagnosis is not None
    for report in [*(one.report for one in done.ended[:2]), done.diagnosis]:
        assert report is not None
        (root,) = (finding for finding in report["findings"] if finding["because_of"] is None)
        assert (root["check"], root["nodes"]) == ("store/node-lost", ["host2"]), done.describe()
        assert "SIGTERM" in root["summary"] and report["verdict"] == "incomplete"
    assert done.ended[2].status == 128 + signal.SIGTERM
