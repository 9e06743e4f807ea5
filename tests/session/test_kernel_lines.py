"""Tests of which lines of the kernel's log are known, and by which checks."""

from __future__ import annotations

import asyncio
import time

import pytest

from distdoctor.probes.host import processes
from distdoctor.session.stages import local
from tests.facts_builder import CHECKS
from tests.probes.test_kernel_log import TEXT


def test_known_lines_are_those_of_the_checks_that_look_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "read_kernel_log", lambda: tuple(processes.kernel_records(TEXT, 1010.0, 5000.0)))
    monkeypatch.setattr(time, "time", lambda: 5000.0)
    lines = asyncio.run(local.known_kernel_lines(CHECKS))
    assert lines is not None
    assert [(one.check, one.shows, one.at, one.values) for one in lines] == [
        ("host/conntrack-full", "cause", 4991.0, {"netns": "4026532001"}),
        ("process/killed-by-oom", "cause", 4992.0, {"pid": "4711", "program": "python"}),
        ("host/filesystem-stalled", "symptom", 4993.0, {"server": "filer1"}),
        ("host/filesystem-stalled", "noise", 4994.0, {"server": "filer1"}),
    ]


def test_a_log_that_may_not_be_read_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "read_kernel_log", lambda: None)
    assert asyncio.run(local.known_kernel_lines(CHECKS)) is None


OLD = """<4>[  100.000000] nf_conntrack: nf_conntrack: table full, dropping packet
<3>[  200.000000] nfs: server filer1 not responding, still trying
<2>[  300.000000] EXT4-fs (sda2): Remounting filesystem read-only
<3>[  400.000000] Out of memory: Killed process 4711 (python) total-vm:1kB, anon-rss:1kB
"""


def test_what_lasts_is_told_however_old_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel says once that a server is away, and no flood of other lines takes that out of sight."""
    flood = "".join(f"<4>[ 9999.{number:06}] nf_conntrack: table full, dropping packet\n" for number in range(150))
    monkeypatch.setattr(
        processes, "read_kernel_log", lambda: tuple(processes.kernel_records(OLD + flood, 10_000.0, 50_000.0))
    )
    monkeypatch.setattr(time, "time", lambda: 50_000.0)
    lines = asyncio.run(local.known_kernel_lines(CHECKS))
    assert lines is not None
    assert [(one.check, one.at) for one in lines[:2]] == [
        ("host/filesystem-stalled", 40_200.0),
        ("host/disk-full", 40_300.0),
    ]
    assert {one.check for one in lines[2:]} == {"host/conntrack-full"} and len(lines) == 2 + local.MAX_KERNEL_LINES
