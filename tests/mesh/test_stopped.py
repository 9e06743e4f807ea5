"""A process that is stopped for a while is no blocked port: its kernel makes connections for it."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from distdoctor.mesh.listener import TOKEN_BYTES, LinkTarget
from distdoctor.mesh.measurement import Measurement
from distdoctor.model.facts import Link, MeshFacts
from tests.facts_builder import healthy, judged

TOKEN = secrets.token_hex(TOKEN_BYTES)
LISTENER = """
import asyncio, sys
from distdoctor.mesh.listener import Listener
async def main():
    print(await Listener(sys.argv[1], 2).start(), flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
CLIMBER = """
import asyncio, sys
from distdoctor.mesh.measurement import Measurement
from distdoctor.mesh.listener import LinkTarget
targets = [LinkTarget(1, "host1 1 net:[1]", "127.0.0.1", 1, ("gloo",))]
targets += [LinkTarget(2, "host2 1 net:[2]", "127.0.0.1", int(port), ("gloo",)) for port in sys.argv[2:]]
print("ready", flush=True)
facts = asyncio.run(Measurement(sys.argv[1], 1, targets, lead=1).run(measure=False))
print(facts.good, [(link.outcome, link.accepted) for link in facts.bad], flush=True)
"""


@pytest.fixture
def listener() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A listener in a process of its own, and its port."""
    process = subprocess.Popen([sys.executable, "-c", LISTENER, TOKEN], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def climb(port: int) -> MeshFacts:
    targets = [LinkTarget(1, "host1 1 net:[1]", "127.0.0.1", 1, ("gloo",))]
    targets += [LinkTarget(2, "host2 1 net:[2]", "127.0.0.1", port, ("gloo",))]
    return asyncio.run(Measurement(TOKEN, 1, targets, lead=1).run(measure=False))


@pytest.mark.parametrize("after", [0.0, 0.02])
def test_a_listener_that_is_stopped_for_five_seconds_is_reached(
    listener: tuple[subprocess.Popen[str], int], after: float
) -> None:
    process, port = listener
    stopping = f"sleep {after}; kill -STOP {process.pid}; sleep 5; kill -CONT {process.pid}"
    stopper = subprocess.Popen(["sh", "-c", stopping])
    time.sleep(0.2 if not after else 0)
    facts = climb(port)
    stopper.wait()
    assert (facts.good, facts.bad) == (1, ())


def test_one_that_stays_stopped_is_silent_and_not_blocked(listener: tuple[subprocess.Popen[str], int]) -> None:
    process, port = listener
    os.kill(process.pid, signal.SIGSTOP)
    facts = climb(port)
    assert [(link.outcome, link.accepted) for link in facts.bad] == [("no-answer", True)]


def test_one_that_was_stopped_itself_tries_again(listener: tuple[subprocess.Popen[str], int]) -> None:
    """Its own clock says that the others were late."""
    _, port = listener
    process = subprocess.Popen([sys.executable, "-c", CLIMBER, TOKEN, str(port)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGSTOP)
    time.sleep(5)
    process.send_signal(signal.SIGCONT)
    out, _ = process.communicate(timeout=20)
    assert out == "1 []\n"


def test_a_silent_process_is_no_finding_about_links() -> None:
    a, b = healthy(2)
    link = Link(b.key, "10.77.0.11", 40001, ("gloo", "primary"), "no-answer", accepted=True)
    assert judged(replace(a, mesh=MeshFacts(good=0, bad=(link,))), b).findings == ()
    blocked = replace(link, accepted=False)
    (root,) = judged(replace(a, mesh=MeshFacts(good=0, bad=(blocked,))), b).roots
    assert root.id == "mesh/peer-ports-blocked"
