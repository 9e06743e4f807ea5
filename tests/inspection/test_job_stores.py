"""How long the stores of a job are waited for."""

from __future__ import annotations

import os
import socket
import time

import pytest

from distdoctor.inspection.job_stores import ask
from distdoctor.inspection.jobs import Found
from tests.helpers.servers import serving
from tests.inspection.test_old_stores import ENV, NEW, Server, ranks


@pytest.mark.parametrize(("load", "state"), [(50.0, "read"), (0.0, "silent")])
def test_on_a_crowded_host_an_answer_may_come_late(monkeypatch: pytest.MonkeyPatch, load: float, state: str) -> None:
    serve = Server(NEW, {"init/": b"2", **ranks(ENV, (0, 1), 2)})

    def late(opened: socket.socket) -> None:
        time.sleep(1.1)
        serve(opened)

    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    with serving(late) as port:
        (view,), _ = ask(Found("job", ""), f"127.0.0.1:{port}")
    assert view.state == state
