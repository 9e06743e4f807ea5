"""Look-ups with a deadline: the client of the process that makes them (resolver_worker.py)."""

from __future__ import annotations

import asyncio
import atexit
import json
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Literal

from distdoctor.probes import resolver_worker
from distdoctor.probes.host.processes import in_thread
from distdoctor.probes.network.tcp import received

ENDING_SECONDS = 0.5
STARTING_SECONDS = 10.0
"""Seconds for which a question may wait for a processor before it begins: that is no slow name server."""
TRIES = 2
"""Attempts with a process that ends without an answer, which says nothing of the question."""
LOST = "the process that looks names up ended"
Question = Literal["addresses", "of_store", "name", "announced", "folder", "lock", "seen"]
"""``addresses``: of a name; ``of_store``: as a TCPStore's client asks for it. ``name``: of an address. ``announced``:
torchrun's name of this host, and its addresses. ``folder``: a file can be written there. ``lock``: it can be locked.
``seen``: another node's file is there."""


@dataclass(frozen=True)
class Reply:
    """Result of one question."""

    found: tuple[str, ...] = ()
    error: str | None = None
    """Reason for no result, if known."""
    timed_out: bool = False
    seconds: float | None = None
    """Seconds of the question itself, without waiting for a processor; None if unknown."""


class Asker:
    """Client of the process that looks names up, which starts with the first question, or before."""

    def __init__(self) -> None:
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._held: list[socket.socket] = []
        """Sockets that keep a file in place; open until nobody needs it."""

    def start(self) -> None:
        """Start the process, unless it runs. Raises OSError."""
        if self._process is not None and self._process.poll() is None:
            return
        self.stop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", resolver_worker.__file__, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            except OSError:
                ours.close()
                raise
        self._control = ours
        atexit.register(self.stop)

    def stop(self) -> None:
        """End the process and its work; when this returns it is gone, and so are the files that it left."""
        for held in self._held:
            held.close()
        self._held.clear()
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(ENDING_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        atexit.unregister(self.stop)

    async def leave_file(self, folder: str, seconds: float) -> Reply:
        """Leave a file in the folder until this is stopped. Return the errno's name or nothing, then the file's
        name."""
        ours = self._send("mark", folder, seconds)
        if ours is None:
            return Reply(error="there is no process that could take it away again")
        reply = await _answer(ours, seconds)
        if len(reply.found) > 1:
            self._held.append(ours)
        else:
            ours.close()
        return reply

    async def ask(self, what: Question, of: str, seconds: float, hurry: bool = False) -> Reply:
        """Return the result within ``seconds``. ``hurry``: each name server gets one second and one try."""
        for _ in range(TRIES):
            ours = self._send(what, of, seconds, hurry)
            if ours is None:
                break
            with ours:
                reply = await _answer(ours, seconds)
            if reply.error != LOST:
                return reply
        return await _ask_in_thread(what, of, seconds)

    def _send(self, what: str, of: str, seconds: float, hurry: bool = False) -> socket.socket | None:
        """Return the socket of the answer; None without a process or descriptor for it."""
        message = json.dumps({"what": what, "of": of, "seconds": seconds, "hurry": hurry}).encode()
        try:
            self.start()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            return None
        ours.setblocking(False)
        with theirs:
            assert self._control is not None
            try:
                socket.send_fds(self._control, [message], [theirs.fileno()])
            except OSError:
                ours.close()
                return None
        return ours


async def _answer(channel: socket.socket, seconds: float) -> Reply:
    end = time.monotonic() + seconds
    try:
        data = await received(channel, resolver_worker.MAX_MESSAGE, max(seconds, STARTING_SECONDS))
        if data == resolver_worker.BEGUN:
            data = await received(channel, resolver_worker.MAX_MESSAGE, seconds)
    except asyncio.TimeoutError:
        return Reply(timed_out=True)
    except OSError:
        data = b""
    if not data:  # it ended: by its own timer, or for another reason
        late = time.monotonic() > end - 0.1
        return Reply(timed_out=True) if late else Reply(error=LOST)
    reply = json.loads(data)
    return Reply(tuple(map(str, reply.get("found", ()))), reply.get("error"), seconds=reply.get("seconds"))


async def _ask_in_thread(what: Question, of: str, seconds: float) -> Reply:
    try:
        return Reply(tuple(await in_thread(lambda: resolver_worker.QUESTIONS[what](of), seconds)))
    except asyncio.TimeoutError:
        return Reply(timed_out=True)
    except (OSError, UnicodeError) as err:
        return Reply(error=resolver_worker.why_not(err))


ASKER = Asker()
"""Client of this process."""
