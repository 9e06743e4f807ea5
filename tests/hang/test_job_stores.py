"""Tests of how long the stores of a job are waited for."""

from __future__ import annotations

import os
import socket
import time

import pytest

from distdoctor.hang.jobs import JobCandidate, LocalJob
from distdoctor.hang.store.view import ask_stores
from tests.hang.test_old_stores import ENV, NEW, Server, ranks
from tests.helpers.servers import serving

RANK = JobCandidate(7, 1, 0.0, "S", "python", ("python", "train.py"), {"WORLD_SIZE": "2"})


@pytest.mark.parametrize(("load", "state"), [(50.0, "read"), (0.0, "silent")])
def test_on_a_crowded_host_an_answer_may_come_late(monkeypatch: pytest.MonkeyPatch, load: float, state: str) -> None:
    serve = Server(NEW, {"init/": b"2", **ranks(ENV, (0, 1), 2)})

    waits = [1.5]

    def late(opened: socket.socket) -> None:
        time.sleep(waits.pop() if waits else 0.0)
        serve(opened)

    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    with serving(late) as port:
        (view,), _ = ask_stores(LocalJob("job", "", {7: (RANK, "rank")}), f"127.0.0.1:{port}")
    assert view.state == state, view
