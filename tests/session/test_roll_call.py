"""How long node 0 keeps the roll open once what has come makes the job fail."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from distdoctor.session import roll_call, so_far
from distdoctor.session.roll_call import RollCall
from tests.facts_builder import healthy


class Inbox:
    """Processes that come at these seconds."""

    def __init__(self, *times: float) -> None:
        self._began, self._times = time.monotonic(), sorted(times)
        self.participants: dict[int, Any] = {}
        self.own: Any = None

    async def poll(self) -> bool:
        facts = healthy(3)
        came = [n for n, at in enumerate(self._times) if time.monotonic() - self._began >= at]
        changed = len(came) > len(self.participants)
        self.participants = {n: SimpleNamespace(number=n, facts=facts[n]) for n in came}
        self.own = self.participants.get(0)
        return changed

    async def read_astray(self) -> None:
        """Nobody is."""


def called(*times: float, started: float) -> RollCall:
    """The roll of three nodes that is over, where two that are there make the job fail; node 0 began that long ago."""
    plan = SimpleNamespace(started="node", nnodes=3, world_size=6)
    now = time.monotonic()
    options = cast(Any, SimpleNamespace(plan=plan, wait=60.0, waits_until=lambda began: now + 30))
    observer = cast(Any, SimpleNamespace(waiting=lambda *_: None, note=lambda *_: None))
    inbox = Inbox(*times)
    foreseen = cast(Any, SimpleNamespace(conflicts=lambda _: len(inbox.participants) > 1))
    recorder = SimpleNamespace(options=options, observer=observer, started=now - started, launched=now - started)
    roll = RollCall(cast(Any, recorder), cast(Any, inbox), cast(Any, lambda: None), foreseen)
    asyncio.run(roll.call())
    return roll


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll_call, "CONFLICT_SECONDS", 0.2)
    monkeypatch.setattr(roll_call, "LATE_SECONDS", 1.0)
    monkeypatch.setattr(so_far, "SO_FAR_AFTER", 100.0)


def test_who_comes_late_where_all_come_slowly_is_waited_for() -> None:
    roll = called(0.0, 0.0, 0.6, started=5.0)
    assert roll.ended and not roll.cut_short and len(roll.in_time) == 3


def test_where_all_come_fast_it_is_not_long() -> None:
    roll = called(0.0, 0.0, 3.0, started=0.0)
    assert roll.ended and roll.cut_short and len(roll.in_time) == 2


def test_it_is_open_no_longer_than_a_moment() -> None:
    began = time.monotonic()
    roll = called(0.0, 0.0, 9.0, started=60.0)
    assert roll.cut_short and time.monotonic() - began < 3
