"""The page of text, whole: what a reader sees is compared with files, which are read in review.

``UPDATE_GOLDEN=1 pytest tests/render`` writes them anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distdoctor.render.text import render
from distdoctor.report import Report
from distdoctor.stages import STAGES

from . import reports

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(
    ("name", "make", "how"),
    [
        ("healthy", reports.healthy, {}),
        ("healthy_verbose", reports.healthy, {"verbose": 1}),
        ("loopback", reports.loopback, {}),
        ("loopback_quiet", reports.loopback, {"quiet": True}),
        ("loopback_ascii_narrow", reports.loopback, {"ascii_only": True, "width": 60}),
        ("loopback_colour", reports.loopback, {"colour": True, "width": 100}),
        ("missing", reports.missing, {}),
        ("port_in_use", reports.port_in_use, {}),
        ("hostile", reports.hostile, {}),
        ("majority", reports.majority, {}),
    ],
)
def test_whole_page(name: str, make: Callable[[], Report], how: dict[str, Any]) -> None:
    text = render(make(), **how)
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("colour", [False, True])
def test_data_cannot_act_on_the_terminal(colour: bool) -> None:
    text = render(reports.hostile(), colour=colour)
    without_our_colours = re.sub(r"\x1b\[[0-9;]*m", "", text) if colour else text
    assert "\x1b" not in without_our_colours
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", without_our_colours)
    assert "[red]evil[/red]" in text
    assert "[rank0]: [/tmp/x]" in text


def test_commands_stay_on_lines_of_their_own_at_any_width() -> None:
    lines = render(reports.loopback(), width=30).splitlines()
    assert "      export GLOO_SOCKET_IFNAME=eth0" in lines
    assert "      echo '10.77.0.10 host0' >> /etc/hosts" in lines


def test_ascii_only_is_ascii() -> None:
    for make in (reports.healthy, reports.loopback, reports.hostile, reports.majority):
        assert render(make(), ascii_only=True, verbose=1).isascii()


def test_nothing_is_wrapped_without_a_width() -> None:
    summary = reports.loopback().findings[0].summary
    assert f"  {summary}\n" in render(reports.loopback())


def test_flag_fixes_are_in_the_next_command() -> None:
    last = render(reports.port_in_use()).splitlines()[-1]
    assert last == "    distdoctor check --nnodes 2 --master-addr host0 --master-port 29501"


def test_commands_start_the_program_as_it_was_started() -> None:
    lines = render(reports.port_in_use(), program="python3 -m distdoctor").splitlines()
    assert lines[-1].startswith("    python3 -m distdoctor check --nnodes 2")
    assert any(line.startswith("  more: python3 -m distdoctor explain ") for line in lines)


def test_a_pass_says_how_far_it_goes() -> None:
    whole = reports.healthy()
    text = render(replace(whole, torch=None, stages=tuple(s for s in whole.stages if s.stage in STAGES[:4])))
    assert "PASS up to network" in text and "no torch" not in text
    assert "torchrun" not in text.splitlines()[-1] and "distdoctor check" in text.splitlines()[-1]
