"""Processes that are looked at twice: one that is about to run is looked at until it rests again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from distdoctor.inspection import looks, proc_files, two_looks
from distdoctor.inspection.jobs import Found
from distdoctor.inspection.proc_files import Stat
from distdoctor.inspection.sockets import SocketTables
from distdoctor.model.facts import JobProcess
from tests.inspection.live_facts import frames, process

RUNS = process(0, frames(), call="")
WAKES = replace(RUNS, threads=tuple(replace(thread, state="R") for thread in RUNS.threads))
SLEEPS = process(0, frames(), call="clock_nanosleep")


@pytest.mark.parametrize(
    ("seen", "cpu", "call", "state"),
    [
        ((WAKES, SLEEPS), 5.0, "clock_nanosleep", "S"),
        ((WAKES, WAKES, SLEEPS), 5.0, "clock_nanosleep", "S"),
        ((WAKES,), 5.0, "", "R"),
        ((WAKES, SLEEPS), 5.4, "", "R"),
        ((SLEEPS, WAKES), 5.0, "clock_nanosleep", "S"),
    ],
    ids=["it sleeps again", "a little later", "others leave it no processor", "it computes", "it slept"],
)
def test_who_wakes_for_a_moment_is_seen_where_it_rests(
    seen: tuple[JobProcess, ...], cpu: float, call: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    later: Iterator[JobProcess] = iter(seen[1:])
    monkeypatch.setattr(looks, "process", lambda *_: next(later, seen[-1]))
    monkeypatch.setattr(proc_files, "stat", lambda _: Stat("R", 1, cpu, 0.0))
    found: Any = Found("job", "", {100: (None, "rank")})  # type: ignore[dict-item]
    settled = two_looks._settled({100: seen[0]}, found, SocketTables(), {100: 5.0})
    main = {100: seen[0], **settled}[100].main
    assert main is not None
    assert (main.call, main.state) == (call, state)
