"""Tests of how slow the machine was for a row: measured over the row itself, by what others took of the processors."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tests.lab.harness.case import PATIENT, Case, slowed
from tests.lab.harness.exact import _slowness
from tests.lab.harness.runner import RUN_LIMIT, Run
from tests.lab.harness.speed import MOST, Look, Others, load, look

CPUS = os.cpu_count() or 1
WORK = "import time\nwhile time.process_time() < {}: pass"


def watched(*looks: tuple[float, float, float]) -> Others:
    others = Others()
    others._looks = [Look(at, all * CPUS, own * CPUS) for at, all, own in looks]
    return others


@pytest.mark.parametrize(
    ("all", "own", "factor"),
    [
        (0.0, 0.0, 1.0),
        (10.0, 10.0, 1.0),  # the row's own work
        (10.0, 10.2, 1.0),  # two clocks, read one after the other
        (10.0, 5.0, 2.0),  # a spinner on each processor
        (7.5, 0.0, 4.0),
        (10.0, 0.0, 1 / (1 - MOST)),
    ],
)
def test_what_others_took_makes_it_slower(all: float, own: float, factor: float) -> None:
    assert watched((100.0, 3.0, 1.0), (110.0, 3.0 + all, 1.0 + own)).slowness(100.0, 110.0) == pytest.approx(factor)


def test_a_burst_counts_where_it_was() -> None:
    others = watched((0.0, 0.0, 0.0), (5.0, 4.0, 0.0), (20.0, 4.0, 0.0))
    assert others.slowness(0.0, 5.0) == pytest.approx(5.0)
    assert others.slowness(0.0, 20.0) == pytest.approx(1.25)
    assert others.slowness(5.0, 20.0) == 1.0


def test_a_row_knows_it_though_the_burst_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.lab.harness.exact.slowness", lambda: 1.0)
    others = watched((50.0, 0.0, 0.0), (56.0, 3.0, 0.0), (80.0, 3.0, 0.0))
    assert _slowness(Run([], others=others, began=50.0), 6.0) == pytest.approx(2.0)


@pytest.mark.parametrize(("slow", "waits", "bound"), [(1.0, 6.0, 9.0), (2.0, 12.0, 15.0), (50.0, 30.0, 33.0)])
def test_nodes_have_as_much_longer_to_meet(slow: float, waits: float, bound: float) -> None:
    case = slowed(Case("name", lambda launch: None, "network/port-filtered", ["host0"], curable=True), slow)
    assert (case.check_flags, case.bound) == (("--wait", f"{waits:g}"), bound)


def test_no_run_waits_until_it_is_killed() -> None:
    case = slowed(Case("name", lambda launch: None, "host/disk-full", ["host0"], wait=PATIENT), 5.0)
    assert (case.wait, PATIENT) == (45.0, 30.0)
    assert case.wait < RUN_LIMIT


def test_own_work_and_that_of_what_was_started_is_own() -> None:
    """Also of a grandchild, and of who has ended meanwhile: no other load makes a difference to that."""
    first = look()
    work = WORK.format(0.5)
    subprocess.run([sys.executable, "-c", work], check=True)
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}])"
    subprocess.run([sys.executable, "-c", nested], check=True)
    waits = f"{work}\nprint(flush=True)\ninput()"
    alive = subprocess.Popen([sys.executable, "-c", waits], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert alive.stdout is not None
    alive.stdout.readline()
    second = look()
    alive.communicate(b"\n")
    assert 1.4 < second.own - first.own < 3.0
    assert second.all - first.all > 1.2


def test_a_load_that_was_made_is_that_of_others() -> None:
    with load(busy=True), Others() as others:
        began = time.monotonic()
        before = look()
        time.sleep(2.0)
        after = look()
        ended = time.monotonic()
    assert after.own - before.own < 0.5  # this process's own
    assert others.slowness(began, ended) > 3  # who is alone on a processor takes all of it
