"""Servers that are none of torch's worker servers, or that lie; real ones: tests/program/test_stores_of_jobs.py."""

from __future__ import annotations

import json
import socket

import pytest

from distdoctor.hang.debug_server import ask_debug_servers
from distdoctor.model.facts import GroupView, Member, StoreView
from tests.hang.test_hostile_stores import flood, silent
from tests.helpers.servers import serving


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
    """Some would keep it for ever."""
    with serving(handle) as port:
        (found,) = ask_debug_servers(named(f"http://node7:{port}"), timeout=3 if answers else 0.8)
    assert found.answers == answers and problem in found.problem and not any(one.calls for one in found.recorders)


@pytest.mark.parametrize(
    "url",
    ["http://192.0.2.7:80", "http://evil.example.org:80/", "http://node7:99999", "http://node7:80/x", "file:///x"],
)
def test_no_other_host_is_asked(url: str) -> None:
    (found,) = ask_debug_servers(named(url), timeout=0.8)
    assert not found.answers and ("not asked" in found.problem or "no address" in found.problem)
