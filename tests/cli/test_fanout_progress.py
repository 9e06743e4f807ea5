"""Tests of what is told of a run on many hosts while it goes on: of hundreds no more than fits a screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from distdoctor.cli.hosts import progress
from distdoctor.cli.hosts.progress import MOST_REPEATED, Progress
from distdoctor.model.observer import Observer
from distdoctor.render.progress import Plain
from distdoctor.render.words import fold_short

FEW = ["gpu01", "gpu02", "gpu03"]
MANY = [f"gpu{number:03}" for number in range(1, 401)]
ODD = MANY[::2]
SCREEN = 160


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def progress_of(said: list[str]) -> Callable[[Sequence[str]], Progress]:
    return lambda hosts: Progress(Plain(lambda text: said.append(text.removeprefix("distdoctor: "))), hosts)


def test_a_stage_ends_once_it_has_ended_on_all_and_names_who_failed_it(
    said: list[str], progress_of: Callable[[Sequence[str]], Progress]
) -> None:
    progress = progress_of(FEW)
    progress.hello(FEW, 15.0)
    for host in FEW:
        progress.event(host, {"stage": "network"})
    progress.event("gpu01", {"stage": "network", "status": "ok", "seconds": 0.1, "reason": ""})
    progress.event("gpu03", {"stage": "network", "status": "ok", "seconds": 0.1, "reason": ""})
    assert len(said) == 1, "gpu02 is still at it"
    progress.event("gpu02", {"stage": "network", "status": "failed", "seconds": 0.1, "reason": "refused"})
    assert said[0] == "waiting for hosts: 3 of 3 (gpu[01-03]), 15 s left\n"
    assert said[1].startswith("network: FAILED") and said[1].endswith("(gpu02: refused)\n")


def test_who_is_gone_is_said_at_once_and_not_waited_for(
    said: list[str], progress_of: Callable[[Sequence[str]], Progress]
) -> None:
    progress = progress_of(FEW)
    for host in FEW:
        progress.event(host, {"stage": "mesh"})
    for host in FEW[:2]:
        progress.event(host, {"stage": "mesh", "status": "ok", "seconds": 0.1, "reason": ""})
    progress.gone("gpu03", "the connection to it was lost")
    assert said[0] == "gpu03: the connection to it was lost\n" and said[1].startswith("mesh: ok")


def test_a_note_of_all_is_told_once(said: list[str], progress_of: Callable[[Sequence[str]], Progress]) -> None:
    progress = progress_of(MANY)
    for host in MANY:
        progress.event(host, {"note": "so far: the port is dropped"})
    progress.event("gpu007", {"note": "so far: another thing"})
    assert said == ["gpu001: so far: the port is dropped\n", "gpu007: so far: another thing\n"]


def test_of_hundreds_that_are_gone_for_one_reason_the_first_are_told(
    said: list[str], progress_of: Callable[[Sequence[str]], Progress]
) -> None:
    """As where the agent with the key is gone. The report has them all."""
    progress = progress_of(MANY)
    for host in MANY:
        progress.gone(host, f"me@{host}: Permission denied (publickey).")
    progress.gone("gpu007", "ssh: connect to host gpu007 port 22: Connection refused")
    assert len(said) == MOST_REPEATED + 2
    assert said[0] == "gpu001: me@gpu001: Permission denied (publickey).\n"
    assert said[-2].endswith("further hosts of which the same is to be said are in the report\n")
    assert said[-1].startswith("gpu007: ssh: connect")


def test_who_is_there_of_hundreds_is_one_line_of_a_screen(
    said: list[str], progress_of: Callable[[Sequence[str]], Progress]
) -> None:
    progress = progress_of(MANY)
    progress.hello(ODD, 12.0)
    progress.hello(MANY, 11.0)
    assert said == [
        "waiting for hosts: 200 of 400 (gpu001, gpu003, gpu005 and 197 more), 12 s left\n",
        "waiting for hosts: 400 of 400 (gpu[001-400]), 11 s left\n",
    ]
    assert max(map(len, said)) < SCREEN


class Waits(Observer):
    """Keeps what is waited for."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def waits(self, what: str, most: float | None = None) -> None:
        self.texts.append(what)


def climbed(hosts: Sequence[str], of: Sequence[str]) -> list[str]:
    """Return what is told to be waited for while all ``of`` them begin a stage and then ``hosts`` end it."""
    waits = Waits()
    progress = Progress(waits, of)
    for host in of:
        progress.event(host, {"stage": "gloo"})
    for host in hosts:
        progress.event(host, {"stage": "gloo", "status": "ok", "seconds": 1.0, "reason": ""})
    return waits.texts


def test_what_is_waited_for_on_hundreds_is_short_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.0)
    texts = climbed(ODD[:30], MANY)
    assert texts[0] == "gloo on gpu[001-400]" and texts[-1] == "gloo on gpu002, gpu004, gpu006 and 367 more"
    assert max(map(len, texts)) < 80


def test_of_thousands_the_last_ones_are_told_each_time_and_the_others_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At each stage of each of 400 hosts all names were put into words: 2 s of a processor for a stage."""
    monkeypatch.setattr(progress, "EVERY_SECONDS", 3600.0)
    thousands = [f"gpu{number:04}" for number in range(2000)]
    texts = climbed(thousands[:-1], thousands)
    assert (texts[0], texts[-1]) == ("gloo on gpu[0000-1999]", "gloo on gpu1999")
    assert len(texts) == 1 + progress.FEW


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (FEW, "gpu[01-03]"),
        (MANY, "gpu[001-400]"),
        (ODD, "gpu001, gpu003, gpu005 and 197 more"),
        ([f"{'x' * 30}-{number}-{'y' * number}" for number in range(1, 5)], None),
    ],
)
def test_names_in_a_line_that_goes_by(names: list[str], short: str | None) -> None:
    """Four or fewer are all told, however long."""
    assert fold_short(names) == short if short else all(name in fold_short(names) for name in names)
