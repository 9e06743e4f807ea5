"""Ranks that wait for their GPUs: what NCCL's RAS tells of them, and what stays unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from distdoctor.cli.diagnose import of_facts
from distdoctor.model.facts import Frame, JobProcess, ProcessChanges, RasCount, RasRank, RasView, Socket
from tests.facts_builder import CHECKS
from tests.job_builder import TRAIN, WAITS, job, rank

SPINS = ProcessChanges(1.5, cpu=1.5, main_cpu=1.5, switches=24, stack=False, paths=1)
SYNC = (Frame("synchronize", "torch/cuda/__init__.py", 1162), TRAIN)
SLEEPS = (Frame("load", "train.py", 12, own=True),)


def spinning(number: int, frames: tuple[Frame, ...] = SYNC) -> JobProcess:
    """In a wait for its GPU: a processor is busy, and the stack stays."""
    one = rank(number, frames, call="", moved=SPINS, threads=("pt_nccl_watchdg",))
    main, *others = one.threads
    return replace(one, state="R", threads=(replace(main, state="R", call="", waits_in=""), *others))


def count(operation: str, first: int, second: int, communicator: str = "aa") -> RasCount:
    ranks = tuple(RasRank(number, 100 + number, "10.0.0.1", it) for number, it in enumerate((first, second)))
    return RasCount(communicator, operation, ranks)


def said(*processes: JobProcess, **told: Any) -> tuple[str, list[tuple[str, str]]]:
    ras = RasView("127.0.0.1", 28028, answers=True, whole=True, **told)
    report = of_facts([job(*processes, ras=ras)], CHECKS, ())
    return report.verdict, [(one.id, one.blame) for one in report.findings]


def test_a_wait_for_a_gpu_is_no_progress_and_no_hang() -> None:
    assert said(spinning(0), spinning(1)) == ("incomplete", [])


def test_so_it_is_below_a_call_of_torch_distributed() -> None:
    """recv() of NCCL waits for the other side with its processor: that it works was taken for progress."""
    receives = (Frame("recv", "torch/distributed/distributed_c10d.py", 2659), TRAIN)
    assert said(spinning(0, receives), spinning(1)) == ("incomplete", [])


def test_who_is_ahead_in_a_collective_waits_in_it() -> None:
    held = rank(1, SLEEPS, call="clock_nanosleep", moved=ProcessChanges(1.5, stack=False))
    held = replace(held, threads=(replace(held.threads[0], left=900.0), *held.threads[1:]), idle=60.0)
    assert said(spinning(0), held, counts=(count("all_reduce", 4, 3),)) == (
        "fail",
        [("process/waiting-in-user-code", "all")],
    )


@pytest.mark.parametrize("named", [True, False])
def test_a_communicator_that_torch_does_not_know(named: bool) -> None:
    """As pynccl's: no thread of torch's shows that the process uses NCCL, but RAS names it."""
    counts = (count("all_reduce", 4, 3), count("all_gather", 0, 1)) if named else ()
    alone = [replace(one, threads=one.threads[:1]) for one in (spinning(0), spinning(1))]
    roots = [("collective/mismatch", "one-of")] if named else []
    assert said(*alone, counts=counts)[1] == roots


def test_who_gets_on_is_waited_for_and_not_blamed() -> None:
    busy = replace(spinning(1), moved=replace(SPINS, stack=True, paths=8))
    assert said(spinning(0), busy, counts=(count("all_reduce", 4, 3),)) == (
        "warn",
        [("process/waiting-in-user-code", "all")],
    )


def test_each_in_another_collective() -> None:
    counts = (count("all_reduce", 4, 3), count("all_gather", 0, 1))
    assert said(spinning(0), spinning(1), counts=counts) == ("fail", [("collective/mismatch", "one-of")])


def test_each_in_another_group() -> None:
    counts = (count("all_reduce", 4, 3, "aa"), count("all_reduce", 6, 7, "bb"))
    assert said(spinning(0), spinning(1), counts=counts) == ("fail", [("collective/mismatch", "one-of")])


def test_one_that_is_ahead_where_the_other_waits_for_its_gpu_proves_nothing() -> None:
    assert said(spinning(0), spinning(1), counts=(count("all_reduce", 4, 3),)) == ("incomplete", [])


def test_counts_of_another_job_tell_nothing() -> None:
    other = RasCount("aa", "all_reduce", (RasRank(0, 7, "10.0.0.1", 4), RasRank(1, 8, "10.0.0.1", 3)))
    assert said(spinning(0), spinning(1), counts=(other,)) == ("incomplete", [])


GONE = {"missing": (RasRank(1, 4711, "10.0.0.1"),), "bereft": (100,)}
"""The process of rank 1 is gone, and NCCL has told rank 0."""


def at(frames: tuple[Frame, ...]) -> JobProcess:
    return replace(spinning(0, frames), sockets=(Socket("LISTEN", "10.0.0.1", 41435),))


def test_who_is_in_a_collective_waits_in_vain_for_one_that_is_gone() -> None:
    assert said(at(WAITS), **GONE) == ("fail", [("process/gone", "all")])


def test_who_waits_for_its_gpu_may_compute_alone_after_the_others_have_ended() -> None:
    assert said(at(SYNC), **GONE) == ("incomplete", [])
