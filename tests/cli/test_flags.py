"""The flags: each is a field and an option, and a command gets them together."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

import pytest
import typer

from distdoctor.cli import app
from distdoctor.cli.check import AGAIN, CheckCommand
from distdoctor.cli.options import (
    GROUPS,
    OPTIONS,
    HangFlags,
    HostFlags,
    JobFlags,
    LogFlags,
    ReportFlags,
    RunFlags,
    by_flags,
)
from distdoctor.cli.parsing import normalized
from distdoctor.plan.values import Flags

FIELDS = [field.name for kind in (Flags, RunFlags, ReportFlags, HostFlags) for field in fields(kind)]
OTHERS = [field.name for kind in (HangFlags, JobFlags, LogFlags) for field in fields(kind)]


def test_each_field_has_its_option_and_each_option_its_field() -> None:
    assert {*FIELDS, *OTHERS} == {*OPTIONS}
    assert set(AGAIN) <= set(FIELDS)


def test_help_has_them_in_their_order_in_each_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["check", "--help"]) == 0
    text = capsys.readouterr().out
    shown = [words[0] for line in text.splitlines() if (words := line.split()) and line[2:3] == "-"]
    flags = [word.strip(",") for word in shown]
    long = {"-o": "--output", "-q": "--quiet", "-v": "--verbose", "-h": "--help", "-n": "--namespace"}
    told = [long.get(flag, flag).partition("/")[0].removeprefix("--").replace("-", "_") for flag in flags]
    named = [name for name in FIELDS if name != "local_rank"]
    group = {name: OPTIONS[name].rich_help_panel for name in named} | {"help": "Output"}
    assert told == sorted([*named, "help"], key=lambda name: GROUPS.index(group[name]))
    headings = [line.rstrip(":") for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == list(GROUPS)


def test_a_flags_help_is_one_short_sentence() -> None:
    for name, option in OPTIONS.items():
        if option.hidden:
            continue
        sentence = re.sub(r" \[[^\[]*\]$", "", option.help).removesuffix(" Repeatable.")
        assert sentence.endswith(".") and ". " not in sentence and len(sentence.split()) <= 20, name


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        (["check", "--wait", "60s"], ["--wait", "60"]),
        (["check", "--wait=2m", "--timeout", "1.5h"], ["--wait=120", "--timeout", "5400"]),
        (
            ["run", "--hang-after", "3m", "--", "job", "--wait", "2m"],
            ["--hang-after", "180", "--", "job", "--wait", "2m"],
        ),
        (["hang", "--watch", "1m"], ["--watch", "60"]),
        (["hang", "--watch", "--pid", "3"], ["--watch", "5", "--pid", "3"]),
        (["check", "--wait", "60"], ["--wait", "60"]),
        (["check", "--wait", "60x"], ["--wait", "60x"]),
        (["diagnose", "--since", "30m", "x.log"], ["--since", "30m", "x.log"]),
    ],
)
def test_times_may_have_a_unit(words: list[str], seconds: list[str]) -> None:
    assert normalized(words)[1:] == seconds


def test_a_command_gets_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[CheckCommand] = []

    def run(command: CheckCommand) -> int:
        seen.append(command)
        return 0

    monkeypatch.setattr(CheckCommand, "run", run)
    words = ["--nnodes", "3", "--node-rank", "1", "--wait", "5", "--no-try-fixes", "--ignore", "a/*", "--ignore", "b/c"]
    assert app.run(["check", *words, "--checks", "site", "-vv", "-o", "json", "--standalone"]) == 0
    assert seen[0].launch == Flags(nnodes="3", node_rank=1, standalone=True)
    assert (seen[0].how.wait, seen[0].how.timeout, seen[0].how.try_fixes) == (5.0, 60.0, False)
    assert (seen[0].report.output, seen[0].report.verbose, seen[0].report.ignore) == (["json"], 2, ["a/*", "b/c"])
    given = [word for pair in seen[0].given() for word in pair if word is not None]
    assert given == [
        *("--nnodes", "3", "--node-rank", "1", "--standalone", "--wait", "5"),
        *("--ignore", "a/*", "--ignore", "b/c", "--checks", "site", "--no-try-fixes"),
    ]


def test_what_is_no_group_of_flags_stays_as_it_is() -> None:
    @dataclass(frozen=True)
    class Some:
        wait: float | None = None

    seen: list[Any] = []

    def command(name: str, some: Some) -> int:
        seen.append((name, some))
        return 0

    command.__annotations__ = {"name": str, "some": Some, "return": int}
    one = typer.Typer()
    one.command()(by_flags(command))
    assert typer.main.get_command(one).main(["x", "--wait", "2"], standalone_mode=False) == 0
    assert seen == [("x", Some(2.0))]
