"""Tests of who is still there: who has ended is lost after some seconds, who only does not run is waited for longer."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import cast

import pytest

from distdoctor.session.leader import stages
from distdoctor.session.leader.inbox import Inbox, Participant
from distdoctor.session.leader.stages import GONE_SECONDS, SILENT_SECONDS, STALLED_SECONDS, Heartbeats
from tests.facts_builder import node

HERE = "127.0.0.1"


class Silent:
    """The end of an inbox whose participants have not beaten since the start."""

    keys = SimpleNamespace(beat=str)

    async def number(self, _key: str) -> int:
        return 3


def lost_after(seconds: float, port: int | None, monkeypatch: pytest.MonkeyPatch, *, loopback: bool = False) -> bool:
    """Return whether a participant that says nothing, with its listener on ``port`` of this host, is lost by then."""
    clock = iter([100.0, 100.0 + seconds])
    monkeypatch.setattr(stages, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(stages, "reaches_no_other", lambda _address: loopback)
    one = Participant(1, node("host1", 1, ip=HERE), port)

    async def feel_twice() -> None:
        felt = Heartbeats(cast(Inbox, Silent()))
        await felt.mark_lost([one])
        await felt.mark_lost([one])

    asyncio.run(feel_twice())
    return one.lost


def test_whose_process_is_there_is_waited_for_although_it_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HERE, 0)) as stopped:  # nobody accepts: the kernel alone does
        port = stopped.getsockname()[1]
        assert not lost_after(SILENT_SECONDS - 1, port, monkeypatch)
        assert not lost_after(SILENT_SECONDS + 1, port, monkeypatch)
        assert not lost_after(STALLED_SECONDS - 1, port, monkeypatch)
        assert lost_after(STALLED_SECONDS + 1, port, monkeypatch)


def test_who_has_ended_is_lost_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HERE, 0)) as ended:
        port = ended.getsockname()[1]
    assert not lost_after(GONE_SECONDS - 1, port, monkeypatch)
    assert lost_after(GONE_SECONDS + 1, port, monkeypatch)


def test_who_cannot_be_asked_has_a_little_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not lost_after(SILENT_SECONDS - 1, None, monkeypatch)
    assert lost_after(SILENT_SECONDS + 1, None, monkeypatch)


def test_a_port_of_this_hosts_loopback_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HERE, 0)) as another:
        assert lost_after(SILENT_SECONDS + 1, another.getsockname()[1], monkeypatch, loopback=True)
        another.setblocking(False)
        with pytest.raises(BlockingIOError):
            another.accept()
