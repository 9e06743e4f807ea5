"""A participant that does not come through a stage in time: gone, or there and late."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import cast

import pytest

from distdoctor.model.stages import COLLECTIVE, GLOO, TRIAL, Stage
from distdoctor.session.leader import stages
from distdoctor.session.leader.inbox import Inbox, Participant
from distdoctor.session.leader.stages import Numbering, StageOpener
from distdoctor.session.protocol.messages import Command, RunKeys
from tests.facts_builder import node


class Quiet:
    """An inbox in which nobody writes but for the signs of life."""

    def __init__(self, one: Participant) -> None:
        self.participants, self.keys, self.beats = {one.number: one}, RunKeys("run"), 0

    async def send(self, _command: Command) -> None:
        pass

    async def poll(self) -> bool:
        return False

    async def number(self, _key: str) -> int:
        self.beats += 1
        return self.beats


@pytest.mark.parametrize(
    ("stage", "there", "stalled"), [(COLLECTIVE, True, True), (COLLECTIVE, False, False), (TRIAL, True, False)]
)
def test_who_is_there_and_late_did_not_go_away(
    monkeypatch: pytest.MonkeyPatch, stage: Stage, there: bool, stalled: bool
) -> None:
    async def listens(_one: Participant) -> bool:
        return there

    monkeypatch.setattr(stages, "LATE_SECONDS", 0.0)
    monkeypatch.setattr(stages, "listens", listens)
    one = Participant(1, node("host1", 1), 40000)
    opener = StageOpener(cast(Inbox, Quiet(one)), time.monotonic() + 60)
    passed = asyncio.run(opener.open(stage, Numbering({"1": (0,)}, {"1": (0,)}, {"1": 1}, 1), 0.1))
    assert not passed and one.lost
    assert (one.stalled is not None) is stalled
    if one.stalled is not None:
        assert (one.stalled.stage, one.stalled.status) == (stage.name, "error")


def test_who_is_silent_for_long_and_there_did_not_go_away_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows no sign of life in the middle of a stage that has time left."""

    async def knock(_one: Participant) -> str:
        return "open"

    one = Participant(1, node("host1", 1), 40000)
    inbox = Quiet(one)
    clock = iter(range(0, 10_000, 4))
    monkeypatch.setattr(stages, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    monkeypatch.setattr(stages, "connect_to_listener", knock)
    monkeypatch.setattr(inbox, "number", silent)
    opener = StageOpener(cast(Inbox, inbox), time.monotonic() + 600)
    passed = asyncio.run(opener.open(GLOO, Numbering({"1": (0,)}, {"1": (0,)}, {"1": 1}, 1), 300.0))
    assert not passed and one.lost
    assert one.stalled is not None and one.stalled.stood_still


async def silent(_key: str) -> int:
    return 7


def test_a_limit_of_new_connections_may_use_what_is_left_of_the_wait() -> None:
    inbox = cast(Inbox, Quiet(Participant(1, node("host1", 1, of=2), 40000)))
    opener = StageOpener(inbox, time.monotonic())
    assert not opener.time_left
    opener.extend(600.0)
    assert opener.time_left
