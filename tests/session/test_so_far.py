"""Tests of what is said while waiting may still cure it."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from distdoctor.model.facts import Contact
from distdoctor.model.findings import Finding
from distdoctor.model.plan import Plan
from distdoctor.session.context import Clock, RunContext
from distdoctor.session.options import Options
from distdoctor.session.rendezvous import progress as module
from distdoctor.session.rendezvous.progress import WaitReporter, news_at, progress_line
from tests.helpers.told import Told


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (("host0: 1 of 3 nodes came in 4 s (--wait 600): host0",), "still waiting for node[1-2]"),
        (
            ("host1: waited 4 s for host0:29500; at last 10.77.0.10 port 29500: refused",),
            "still waiting for node[1-2]; at last 10.77.0.10 port 29500: refused",
        ),
        ((), "still waiting for node[1-2]"),
    ],
)
def test_nobody_has_never_come_before_the_waiting_ends(evidence: tuple[str, ...], said: str) -> None:
    finding = Finding("node1 never came within 4 s.", nodes=("node1", "node2"), evidence=evidence)
    assert (
        progress_line(replace(_as(finding, "store/nodes-missing"), incomplete=True))
        == f"so far: store/nodes-missing: {said}"
    )


def test_another_finding_is_told_as_it_is() -> None:
    finding = _as(Finding("host0 refuses port 29500."), "network/port-refused")
    line = "so far: network/port-refused: host0 refuses port 29500. Still waiting"
    assert progress_line(finding) == line


@pytest.mark.parametrize(("launched", "since"), [(100.0, 100.0), (99.4, 99.4), (98.6, 99.0), (40.0, 99.0)])
def test_the_user_waits_from_the_command_on(launched: float, since: float) -> None:
    """On a quiet machine, that is: who was slow to start himself gives the others as long."""
    assert Clock(60.0, 60.0, started=100.0, launched=launched).waiting_since == since


@pytest.mark.parametrize(
    ("ready", "news"),
    [
        (1.0, 3.5),  # all is quick: so long after the command
        (2.4, 3.5),
        (2.8, 3.8),  # who has just got ready gives the others a moment to come,
        (3.6, 4.8),  # where processors are busy a longer one,
        (60.0, 61.5),  # but none that outlasts a short --wait
    ],
)
def test_when_it_is_news_that_somebody_is_missing(ready: float, news: float) -> None:
    assert news_at(100.0, 100.0 + ready) == pytest.approx(100.0 + news)


@pytest.mark.parametrize(
    ("outcome", "waited", "imported", "left", "told"),
    [
        ("refused", 6.0, None, 50.0, False),  # node 0 may still import torch, as this process does
        ("refused", 6.0, 5.5, 50.0, False),
        ("refused", 8.0, 5.5, 50.0, True),
        ("refused", 21.0, None, 50.0, True),  # whatever keeps it, it is worth a line
        ("refused", 6.0, None, 1.9, True),
        ("refused", 3.0, 1.0, 50.0, False),
        ("no-answer", 6.0, None, 50.0, True),  # a host that is up answers, whatever its processes do
        ("no-answer", 3.0, None, 50.0, False),
    ],
)
def test_who_may_just_be_importing_torch_is_not_yet_missing(
    monkeypatch: pytest.MonkeyPatch, outcome: Any, waited: float, imported: float | None, left: float, told: bool
) -> None:
    """``waited`` and ``imported``: seconds since the command, and from there to the end of this process's import."""
    began = time.monotonic() - waited
    finding = _as(Finding("host0 refuses port 29500."), "network/port-refused")
    monkeypatch.setattr(module, "judge_facts", lambda *_: (finding,))
    context = RunContext(Options(Plan(nnodes=2, node_rank=1, master_addr="host0"), ()), heard := Told(), began)
    context.clock.started = began
    context.update_network(contact=Contact("10.77.0.10", 29500, outcome))
    zygote = SimpleNamespace(imported=None if imported is None else began + imported)
    WaitReporter(context, cast(Any, zygote)).report(left)
    assert bool(heard.notes) == told


def _as(finding: Finding, check: str) -> Finding:
    return replace(finding, check=check, id=check)
