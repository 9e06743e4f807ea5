"""Which lines of the kernel's log are known, and by which checks."""

from __future__ import annotations

import asyncio

import pytest

from distdoctor.probes import kernel_log
from distdoctor.session import kernel_lines
from tests.facts_builder import CHECKS
from tests.probes.test_kernel_log import TEXT


def test_known_lines_are_those_of_the_checks_that_look_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "read", lambda: tuple(kernel_log.lately(TEXT, 1010.0, 5000.0)))
    lines = asyncio.run(kernel_lines.known(CHECKS))
    assert lines is not None
    assert [(one.check, one.shows, one.at, one.values) for one in lines] == [
        ("host/conntrack-full", "cause", 4991.0, {"netns": "4026532001"}),
        ("process/killed-by-oom", "cause", 4992.0, {"pid": "4711", "program": "python"}),
        ("host/filesystem-stalled", "symptom", 4993.0, {"server": "filer1"}),
        ("host/filesystem-stalled", "noise", 4994.0, {"server": "filer1"}),
    ]


def test_a_log_that_may_not_be_read_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "read", lambda: None)
    assert asyncio.run(kernel_lines.known(CHECKS)) is None
