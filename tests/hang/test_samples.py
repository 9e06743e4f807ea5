"""Samples of the stacks of processes that compute: how many, for how long, and of whom."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Mapping

import pytest

from distdoctor.hang import snapshot, stacks
from distdoctor.hang.jobs import LocalJob, Scan
from distdoctor.knowledge.live.stacks import PATHS
from distdoctor.model.facts import Frame
from tests.helpers.programs import python

LOOP = "print(1, flush=True)\nsteps = 0\nwhile True:\n    steps += 1"
EVALUATES = """
import statistics

def layer(values):
    return sorted(value * 1.5 for value in values)

def accuracy(values):
    return statistics.mean(values) + statistics.pstdev(values)

print(1, flush=True)
while True:
    accuracy(layer(range(3000)))
"""


@pytest.mark.skipif(bool(stacks.why_not()), reason="py-spy is not here, or may not be used")
def test_who_computes_while_others_wait_stays_in_its_loop_or_gets_about() -> None:
    waits = "import time; print(1, flush=True); time.sleep(60)"
    with python(waits) as waiting_one, python(LOOP) as loop, python(EVALUATES) as evaluates:
        pids = [waiting_one.pid, loop.pid, evaluates.pid]
        found = snapshot.sample_paths(pids, time.monotonic() + 2.5)
        assert snapshot.sample_paths(pids[1:], time.monotonic() + 1.0) == {}  # nobody waits
    assert found.keys() == {loop.pid, evaluates.pid}
    assert len(found[loop.pid]) == 1 and len(found[evaluates.pid]) >= PATHS


@pytest.mark.parametrize(("functions", "reads"), [("aaaaaaaa", 6), ("abaabaca", 6), ("abcdefgh", 3)])
def test_as_many_samples_are_taken_where_each_takes_long(
    functions: str, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that has much else to do; none more once it is known that it gets about."""
    taken: list[str] = []

    def slowly(pids: Collection[int]) -> dict[int, tuple[stacks.Stack, str]]:
        time.sleep(0.1)
        if pids:  # nobody is asked who got no processor since
            taken.append(functions[len(taken)])
        return {pid: ({pid: (Frame(taken[-1], "train.py", 1, own=True),)}, "") for pid in pids}

    with python(LOOP) as loop:
        monkeypatch.setattr(stacks, "read", slowly)
        monkeypatch.setattr(snapshot, "MOST_SAMPLES", 6)
        found = snapshot.sample_paths([loop.pid], time.monotonic() + 1.0, alone=False)
    assert len(taken) == reads and len(found[loop.pid]) == len(set(taken))


@pytest.mark.parametrize(("apart", "left"), [(1.0, 0.6), (0.1, 0.0)])
def test_time_is_left_for_samples_however_long_the_first_look_took(
    apart: float, left: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[float] = []

    def none(
        _: Collection[int], end: float, alone: bool, mains: Mapping[int, int]
    ) -> dict[int, set[snapshot.StackPath]]:
        told.append(end - time.monotonic())
        return {}

    monkeypatch.setattr(snapshot, "sample_paths", none)
    snapshot.take_two(LocalJob("job", ""), Scan({}, {}), apart, "off", lambda: time.sleep(1.2))
    assert told[0] > left


def test_who_gets_no_processor_is_not_sampled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def stopped(pids: Collection[int]) -> dict[int, tuple[stacks.Stack, str]]:
        taken.extend(pids)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(0.1)
        return {pid: ({pid: (Frame("step", "train.py", 1, own=True),)}, "") for pid in pids}

    with python(LOOP) as loop:
        monkeypatch.setattr(stacks, "read", stopped)
        snapshot.sample_paths([loop.pid], time.monotonic() + 0.8, alone=False)
    assert 1 <= len(taken) <= 2  # it may run on for a moment until the signal reaches it
