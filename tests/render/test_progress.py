"""Tests of what is said while a run goes on."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from distdoctor.model.observer import Observer
from distdoctor.model.plan import Plan
from distdoctor.render import progress
from distdoctor.render.progress import Plain, Terminal, announcement, observer_for, roll_call


def test_the_line_for_the_others_says_where_it_is_for() -> None:
    text = announcement("distdoctor check --nnodes 2 --master-addr 10.0.0.1", 2)
    assert text.startswith("This host is node 0. Run this on the other node (not here):\n")
    assert "\n    distdoctor check --nnodes 2 --master-addr 10.0.0.1\n" in text
    assert "each of the other 3 nodes (not here)" in announcement("x", 4)


def test_roll_call() -> None:
    text = roll_call(["host0", "host1"], 4, "nodes", 12.3)
    assert text == "waiting for nodes: 2 of 4 (host[0-1]), 12 s left"


class TestPlain:
    def test_one_line_per_event(self) -> None:
        said: list[str] = []
        plain = Plain(said.append)
        plain.stage_started("network")
        plain.stage_ended("network", "failed", 0.4, "refused")
        plain.note("so far: refused\nso far: \x1b[2Jand more")
        plain.close()
        assert said == [
            "distdoctor: network: FAILED, 0.40 s (refused)\n",
            "distdoctor: so far: refused\n",
            "distdoctor: so far: \\x1b[2Jand more\n",
        ]

    def test_waiting_is_said_when_somebody_comes_and_as_a_heartbeat(self, monkeypatch: pytest.MonkeyPatch) -> None:
        said: list[str] = []
        plain = Plain(said.append)
        for left in (60.0, 59.5):
            plain.waiting(["host0"], 2, "nodes", left)
        assert len(said) == 1
        monkeypatch.setattr(progress, "HEARTBEAT", 0.05)
        time.sleep(0.06)
        plain.waiting(["host0"], 2, "nodes", 50.0)
        plain.waiting(["host0", "host1"], 2, "nodes", 49.9)
        plain.close()
        assert len(said) == 3
        assert "host[0-1]" in said[-1]

    def test_a_long_stage_is_heard_of(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(progress, "HEARTBEAT", 0.2)
        said: list[str] = []
        plain = Plain(said.append)
        plain.stage_started("gloo")
        time.sleep(2.5)
        plain.close()
        assert said
        assert said[0].startswith("distdoctor: gloo: still running after ")

    def test_quiet_keeps_notes_and_the_announcement(self) -> None:
        said: list[str] = []
        plain = Plain(said.append, quiet=True)
        plain.stage_ended("host", "ok", 0.1, "")
        plain.waiting([], 2, "nodes", 1)
        plain.note("so far: x")
        plain.announce("line", 2)
        assert said[0] == "distdoctor: so far: x\n"
        assert "line" in said[1]
        assert len(said) == 2

    def test_nothing_after_the_end(self) -> None:
        said: list[str] = []
        plain = Plain(said.append)
        plain.close()
        plain.note("late")
        assert said == []


def test_terminal_line_is_cleared_at_the_end() -> None:
    said: list[str] = []
    terminal = Terminal(said.append, ascii_only=True, colour=False)
    terminal.stage_started("gloo")
    time.sleep(0.35)
    terminal.note("so far: x")
    time.sleep(0.25)
    terminal.close()
    drawn = len(said)
    time.sleep(0.25)
    assert len(said) == drawn
    assert said[-1] == "\r\x1b[K"
    assert "so far: x\n" in said
    assert any("gloo" in text for text in said)


@pytest.mark.parametrize(
    ("plan", "options", "kind"),
    [
        (Plan(), {}, Plain),
        (Plan(), {"terminal": True}, Terminal),
        (Plan(started="rank", rank=0, local_rank=0), {}, Plain),
        (Plan(started="rank", rank=1, local_rank=1), {}, Observer),
        (Plan(started="rank", rank=1, local_rank=1), {"terminal": True}, Observer),
    ],
)
def test_who_speaks(plan: Plan, options: dict[str, Any], kind: type[Any]) -> None:
    given = {"quiet": False, "terminal": False, "ascii_only": True, "colour": False, "write": lambda _: None, **options}
    observer = observer_for(plan, **given)
    assert type(observer) is kind
    observer.close()


class TestWhatIsShownIsWhatIsWaitedFor:
    @staticmethod
    def shown(terminal: Terminal, said: list[str]) -> str:
        said.clear()
        time.sleep(0.35)
        return said[-1].removeprefix("\r\x1b[K")[2:] if said else ""

    def test_a_stage_that_ended_is_not_shown(self) -> None:
        """The devices are looked at beside the network stage, which takes longer."""
        said: list[str] = []
        terminal = Terminal(said.append, ascii_only=True, colour=False)
        terminal.stage_started("network", 60.0)
        terminal.stage_started("gpu", 30.0)
        terminal.waits("importing torch", 120.0)
        assert self.shown(terminal, said) == "importing torch"
        terminal.waited("importing torch")
        assert self.shown(terminal, said) == "gpu"
        terminal.stage_ended("gpu", "skipped", 0.1, "no GPU")
        time.sleep(0.5)
        assert re.fullmatch(r"network \d s \(at most 60 s\)", self.shown(terminal, said))
        terminal.stage_ended("network", "ok", 1.0, "")
        assert self.shown(terminal, said) == ""
        terminal.close()

    def test_the_roll_call_gives_way_to_the_next_stage(self) -> None:
        said: list[str] = []
        terminal = Terminal(said.append, ascii_only=True, colour=False)
        terminal.waits("waiting for the others", 100.0)
        terminal.waiting(["host0"], 2, "nodes", 50.0)
        assert self.shown(terminal, said).startswith("waiting for nodes: 1 of 2 (host0), 50 s left")
        terminal.stage_started("store", 17.0)
        assert self.shown(terminal, said) == "store"
        terminal.close()

    def test_the_heartbeat_names_the_stage_that_goes_on_and_its_bound(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(progress, "HEARTBEAT", 0.2)
        said: list[str] = []
        plain = Plain(said.append)
        plain.stage_started("network", 60.0)
        plain.stage_started("gpu", 30.0)
        plain.stage_ended("gpu", "skipped", 0.1, "no GPU")
        time.sleep(1.6)
        plain.close()
        assert next(line for line in said if "still running" in line).startswith(
            "distdoctor: network: still running after 1 s"
        )
        assert said[-1].endswith("(at most 60 s)\n")


def test_stages_left_out_because_of_a_failure_are_no_lines_of_their_own() -> None:
    said: list[str] = []
    plain = Plain(said.append)
    plain.stage_ended("network", "failed", 0.4, "refused")
    for stage in ("store", "mesh", "gloo"):
        plain.stage_ended(stage, "skipped", 0.0, "needs network")
    plain.stage_ended("nccl", "skipped", 0.0, "no GPU")
    plain.close()
    assert said == ["distdoctor: network: FAILED, 0.40 s (refused)\n", "distdoctor: nccl: skipped, 0.00 s (no GPU)\n"]


def test_while_the_roll_is_called_its_lines_are_the_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT", 1.0)
    said: list[str] = []
    plain = Plain(said.append)
    plain.waits("waiting for the others", 100.0)
    for left in range(30, 20, -1):
        plain.waiting(["host0"], 2, "nodes", left)
        time.sleep(0.25)
    plain.close()
    assert len(said) >= 2
    assert all(line.startswith("distdoctor: waiting for nodes: 1 of 2 (host0)") for line in said)


class TestSoFar:
    def test_it_is_told_again_when_it_changes_and_after_a_while_with_the_time(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said: list[str] = []
        plain = Plain(said.append)
        for seconds in range(4, 7):
            plain.failure_so_far("node1", "so far: node1", f"{seconds} s of 600 s")
        plain.failure_so_far("node2", "so far: node2", "7 s of 600 s")
        assert said == ["distdoctor: so far: node1 (4 s of 600 s)\n", "distdoctor: so far: node2 (7 s of 600 s)\n"]
        monkeypatch.setattr(progress, "AGAIN", 0.0)
        plain.failure_so_far("node2", "so far: node2", "37 s of 600 s")
        plain.close()
        assert said[2:] == ["distdoctor: so far: node2 (37 s of 600 s)\n"]

    def test_on_a_terminal_the_time_lives_below_it(self) -> None:
        said: list[str] = []
        terminal = Terminal(said.append, ascii_only=True, colour=False)
        terminal.stage_started("network", 600.0)
        terminal.failure_so_far("node0", "so far: node0", "4 s of 600 s")
        time.sleep(0.35)
        terminal.failure_so_far("node0", "so far: node0", "5 s of 600 s")
        time.sleep(0.35)
        assert said.count("so far: node0\n") == 1
        assert any("(4 s of 600 s)" in text for text in said) and "(5 s of 600 s)" in said[-1]
        assert all(text.startswith("\r") for text in said if "s of 600 s" in text)
        terminal.stage_ended("network", "ok", 5.0, "")
        said.clear()
        time.sleep(0.25)
        terminal.close()
        assert not any("of 600 s" in text for text in said)
