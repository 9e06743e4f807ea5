"""Tests of how long node 0 keeps the roll open once what has come makes the job fail."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from distdoctor.model.plan import Plan
from distdoctor.session.leader import roll_call
from distdoctor.session.leader.roll_call import RollCall
from distdoctor.session.rendezvous import progress
from tests.facts_builder import healthy


class Inbox:
    """Processes that come at these seconds."""

    def __init__(self, *times: float) -> None:
        self._began, self._times = time.monotonic(), sorted(times)
        self.participants: dict[int, Any] = {}
        self.own: Any = None
        self.enrolled = 0
        self.callers: list[Any] = []

    async def unheard(self) -> bool:
        """Return whether more nodes have enrolled than have joined."""
        return self.enrolled > len(self.participants)

    async def poll(self) -> bool:
        facts = healthy(3)
        came = [n for n, at in enumerate(self._times) if time.monotonic() - self._began >= at]
        changed = len(came) > len(self.participants)
        self.participants = {n: SimpleNamespace(number=n, facts=facts[n]) for n in came}
        self.own = self.participants.get(0)
        return changed

    async def read_strays(self) -> None:
        """Nobody is."""

    async def read_callers(self, plan: Plan) -> None:
        """Nobody called in vain."""


def roll_of(inbox: Inbox, nnodes: int, started: float) -> RollCall:
    """The roll of so many nodes, where two that are there make the job fail; node 0 began that long ago."""
    plan = SimpleNamespace(started="node", nnodes=nnodes, world_size=2 * nnodes)
    now = time.monotonic()
    options = cast(Any, SimpleNamespace(wait=60.0))
    observer = cast(Any, SimpleNamespace(waiting=lambda *_: None, note=lambda *_: None, failure_so_far=lambda *_: None))
    foreseen = cast(Any, SimpleNamespace(conflicts=lambda _: len(inbox.participants) > 1))
    began = now - started
    clock = SimpleNamespace(wait=60.0, started=began, waiting_since=began, waits_until=lambda: now + 30)
    context = SimpleNamespace(options=options, plan=plan, clock=clock, observer=observer)
    return RollCall(cast(Any, context), cast(Any, inbox), cast(Any, lambda: None), foreseen)


def called(*times: float, started: float) -> RollCall:
    """The roll of three nodes that is over."""
    roll = roll_of(Inbox(*times), 3, started)
    asyncio.run(roll.call())
    return roll


def heard(*times: float, enrolled: int) -> tuple[int, float]:
    """Of two nodes whose ladder is over: how many are known in the end, and the seconds that took."""
    inbox = Inbox(*times)
    roll = roll_of(inbox, 2, 5.0)
    roll.expected, inbox.enrolled, began = 2, enrolled, time.monotonic()

    async def end() -> None:
        await inbox.poll()
        await roll.hear_surplus()

    asyncio.run(end())
    return len(inbox.participants), time.monotonic() - began


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll_call, "CONFLICT_SECONDS", 0.2)
    monkeypatch.setattr(roll_call, "LATE_SECONDS", 1.0)
    monkeypatch.setattr(progress, "SO_FAR_AFTER", 100.0)


def test_who_comes_late_where_all_come_slowly_is_waited_for() -> None:
    roll = called(0.0, 0.0, 0.6, started=5.0)
    assert roll.ended and not roll.cut_short and len(roll.in_time) == 3


def test_where_all_come_fast_it_is_not_long() -> None:
    roll = called(0.0, 0.0, 3.0, started=0.0)
    assert roll.ended and roll.cut_short and len(roll.in_time) == 2


def test_it_is_open_no_longer_than_a_moment() -> None:
    roll = called(0.0, 0.0, 9.0, started=60.0)
    assert roll.cut_short and len(roll.in_time) == 2


def test_one_too_many_that_is_on_its_way_is_heard_before_the_end() -> None:
    known, _ = heard(0.0, 0.0, 0.4, enrolled=3)
    assert known == 3


@pytest.mark.parametrize(
    "times", [(0.0, 0.0), (0.0, 50.0)], ids=["all came", "one of the two is missing: its import may have failed"]
)
def test_it_is_not_waited_for_in_vain(times: tuple[float, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll_call, "LATE_SECONDS", 50.0)
    _, seconds = heard(*times, enrolled=2)
    assert seconds < 40


def test_who_enrolled_and_never_comes_is_waited_for_a_moment() -> None:
    _, seconds = heard(0.0, 0.0, enrolled=3)
    assert seconds >= 1.0
