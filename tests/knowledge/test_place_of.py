"""Tests of where a rank is, and whether anything moves in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.knowledge.live import places
from distdoctor.knowledge.live.places import place_of
from distdoctor.knowledge.live.stacks import works
from distdoctor.model.facts import Answerer, Frame, ProcessChanges, Socket
from tests.job_builder import TRAIN, rank

POLLS = ProcessChanges(1.5, cpu=0.01, switches=15, stack=False)
"""It sleeps for 0.1 s at a time."""


@pytest.mark.parametrize("stack", [False, None])
def test_who_only_looks_again_and_again_does_not_work(stack: bool | None) -> None:
    polls = rank(1, [TRAIN], call="clock_nanosleep", moved=replace(POLLS, stack=stack))
    assert not works(polls)
    assert not place_of(polls).sure  # it may also work a little each time: no finding is built on it


@pytest.mark.parametrize(
    "moved",
    [replace(POLLS, stack=True), replace(POLLS, cpu=0.2), replace(POLLS, read=400, written=400)],
    ids=["at another line", "it computes", "it exchanges data"],
)
def test_who_sleeps_between_steps_works(moved: ProcessChanges) -> None:
    assert works(rank(1, [TRAIN], call="clock_nanosleep", moved=moved))


def test_a_store_that_the_jobs_own_code_makes_is_waited_at() -> None:
    """TCPStore(..., is_master=True) looks every 10 ms who has come, and shows no frame of torch."""
    own = [Frame("perform", "train.py", 12, own=True)]
    polls = ProcessChanges(1.5, cpu=0.02, switches=140, read=5184, written=1440, stack=False)
    alone = rank(0, own, call="clock_nanosleep", moved=polls, threads=["pt_tcpstore_uv"])
    assert place_of(alone).kind == places.HOSTING
    later = rank(0, own, call="clock_nanosleep", moved=polls, threads=["pt_tcpstore_uv", "gloo_tcp_loop"])
    assert place_of(later).kind == places.CODE


@pytest.mark.parametrize(("clients", "kind"), [(1, places.KEY), (2, places.CODE)])
def test_a_key_of_the_own_store_that_no_other_client_can_set(clients: int, kind: str) -> None:
    """vLLM's StatelessProcessGroup waits in a library's frame; with another client, that one may still set it."""
    frames = [Frame("barrier", "vllm/distributed/utils.py", 462), TRAIN]
    seen = rank(0, frames, call="poll", threads=["pt_tcpstore"])
    ends = [Socket("ESTABLISHED", "10.77.0.10", 51216, "10.77.0.10", 40000 + n) for n in range(clients)]
    own = Socket("ESTABLISHED", "10.77.0.10", 40000, "10.77.0.10", 51216)
    main = replace(seen.threads[0], reads="socket:10.77.0.10:40000 to 10.77.0.10:51216", asks=Answerer(100, "python"))
    waits = replace(seen, threads=(main, *seen.threads[1:]), sockets=(own, *ends))
    assert place_of(waits).kind == kind


def test_who_cannot_be_seen_is_nowhere_in_particular() -> None:
    """A user without the rights of the job, as one that was started with more capabilities; gVisor shows no more."""
    seen = rank(0, [], call="", threads=["gloo_tcp_loop", "pt_gloo_runloop"])
    hidden = replace(seen, threads=tuple(replace(one, call="", waits_in="") for one in seen.threads))
    assert place_of(hidden).kind == places.UNSEEN and not place_of(hidden).sure
    assert place_of(replace(hidden, threads=(*hidden.threads[:1], *seen.threads[1:]))).kind != places.UNSEEN
