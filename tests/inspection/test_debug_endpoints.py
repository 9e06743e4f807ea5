"""What torch's worker servers tell of a job that hangs in a collective, and servers that are none."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest

from distdoctor.inspection.debug_endpoints import servers
from distdoctor.inspection.store_view import view
from distdoctor.model.facts import GroupView, Member, StoreView
from tests.helpers.jobs import Job, Jobs
from tests.helpers.servers import serving, unused_port
from tests.inspection.test_hostile_stores import flood, silent


@pytest.mark.timeout(400)
def test_a_rank_that_is_absent_from_a_collective(tmp_path: Path) -> None:
    jobs, port, end = Jobs(), unused_port(), time.monotonic() + 200
    try:
        job = Job(jobs, tmp_path)
        for rank in range(2):
            job.rank(port, rank, 2, ABSENT="1")
        waiting = False
        while not waiting:
            assert time.monotonic() < end
            time.sleep(0.2)
            found = servers(view("127.0.0.1", port, timeout=3), timeout=3)
            groups = {one.rank: one.recorders[0].calls for one in found if one.answers and one.recorders}
            waiting = len(groups) == 2 and len(groups[0]) > len(groups[1])
        (missed,) = groups[0][len(groups[1]) :]
        assert (missed.operation, missed.done) == ("all_reduce", False)
        assert all(call.done for call in groups[1])
        for _ in range(20):
            assert servers(view("127.0.0.1", port, timeout=3), timeout=3) == found
        assert job.results(2) == [["rank", rank, 2.0] for rank in range(2)]
    finally:
        jobs.close()


def named(url: str) -> StoreView:
    member = Member(0, "node7", "127.0.0.1", 1, 2)
    return StoreView(
        "127.0.0.1", 1, "read", groups=(GroupView("default_pg/0", "cpu", (0,), (member,)),), debug_servers={0: url}
    )


def say(body: bytes, status: int = 200) -> bytes:
    return f"HTTP/1.0 {status} X\r\n\r\n".encode() + body


def answering(*answers: bytes):  # type: ignore[no-untyped-def]
    left = list(answers)

    def answer(opened: socket.socket) -> None:
        opened.recv(4096)
        opened.sendall(left.pop(0))

    return answer


SERVERS = {
    "silence": (silent, "not answer", False),
    "endless noise": (flood, "HTTP", False),
    "hangs up": (lambda opened: None, "", False),
    "another server": (answering(say(b"hello", 404)), "404", False),
    "no recorder": (answering(say(b""), say(b"", 404)), "404", True),
    "no JSON": (answering(say(b""), say(b"{not")), "JSON", True),
    "JSON of another kind": (answering(say(b""), say(b"[]")), "", True),
    "deep JSON": (answering(say(b""), say(b'{"a":' * 90_000)), "JSON", True),
    "entries of another kind": (answering(say(b""), say(json.dumps({"entries": [1, {}, []]}).encode())), "", True),
}


@pytest.mark.parametrize(("handle", "problem", "answers"), SERVERS.values(), ids=SERVERS)
def test_servers_that_are_none(handle, problem: str, answers: bool) -> None:  # type: ignore[no-untyped-def]
    started = time.monotonic()
    with serving(handle) as port:
        (found,) = servers(named(f"http://node7:{port}"), timeout=3 if answers else 0.8)
    assert time.monotonic() - started < 6
    assert found.answers == answers and problem in found.problem and not any(one.calls for one in found.recorders)


@pytest.mark.parametrize(
    "url",
    ["http://192.0.2.7:80", "http://evil.example.org:80/", "http://node7:99999", "http://node7:80/x", "file:///x"],
)
def test_no_other_host_is_asked(url: str) -> None:
    (found,) = servers(named(url), timeout=0.8)
    assert not found.answers and ("not asked" in found.problem or "no address" in found.problem)
