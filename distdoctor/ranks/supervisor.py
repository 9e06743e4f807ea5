"""Supervisor's side of the zygote: processes that can be called, watched and killed."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import select
import socket
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from distdoctor.model.facts import BadFacts
from distdoctor.ranks.torch_info import TorchInfo, ended, info
from distdoctor.ranks.zygote_start import nameless_file, take

MAX_MESSAGE = 1 << 17
PR_SET_CHILD_SUBREAPER = 36
BUSY_SECONDS = 2.0
"""Seconds for which a message to the zygote may have to wait until the zygote takes those before it."""
OUTPUT_KEPT = 16_384
"""Bytes kept of a child's output, from its end."""
IMPORT_OUTPUT_KEPT = 300
"""Bytes kept of the output of a process in which the import of torch ended."""


class Died(Exception):
    """A process ended before it answered; the text says how."""


class Child:
    """One process forked from the zygote. It answers one call at a time."""

    def __init__(self, number: int, channel: socket.socket, output: int, zygote: Zygote) -> None:
        self.number, self.channel, self.output_fd, self.zygote = number, channel, output, zygote
        self.pid: int | None = None
        self.exit_status: int | None = None
        self.spawned, self.exited = asyncio.Event(), asyncio.Event()

    async def call(self, op: str, **arguments: Any) -> dict[str, Any]:
        """Return the child's answer to one call. Raises Died if it ends first. Cancel it, then kill the child, to give
        up."""
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_sendall(self.channel, json.dumps({"op": op, **arguments}).encode())
            data = await loop.sock_recv(self.channel, MAX_MESSAGE)
        except OSError:
            data = b""
        if not data:
            try:
                await asyncio.wait_for(self.exited.wait(), 0.5)
            except asyncio.TimeoutError:
                pass
            raise Died(self.how_it_ended())
        try:
            answer: dict[str, Any] = json.loads(data)
        except ValueError:
            raise Died("the process answered what is no answer") from None
        if self.pid is None:  # the zygote's message on it may arrive after the child's own
            try:
                await asyncio.wait_for(self.spawned.wait(), 0.5)
            except asyncio.TimeoutError:
                pass
        return answer

    def how_it_ended(self) -> str:
        """Return in words how the process ended."""
        if self.exit_status is None:
            return "the process closed its channel"
        if self.exit_status < 0:
            return f"the process was ended by signal {-self.exit_status}"
        return f"the process ended with status {self.exit_status}"

    def output(self) -> str:
        """Return the end of its stdout and stderr."""
        return read_end(self.output_fd, OUTPUT_KEPT)

    def output_from_start(self, size: int) -> str:
        """Return the start of its output, ``size`` bytes at most; nothing if it was closed."""
        try:
            return os.pread(self.output_fd, size, 0).decode(errors="replace")
        except OSError:
            return ""

    def kill(self) -> None:
        """End it now, whatever it is doing."""
        self.zygote.send({"kill": self.number})

    def close(self) -> None:
        """Close its channel, which ends it if it is waiting for a call."""
        if self.output_fd >= 0:
            self.channel.close()
            os.close(self.output_fd)
            self.output_fd = -1


class Zygote:
    """One per supervisor. Start it early: importing torch takes seconds."""

    def __init__(self) -> None:
        taken = take()
        self.control, self.output_fd = taken.control, taken.output_fd
        self.started, self.process = taken.at, taken.process
        self.children: dict[int, Child] = {}
        self.next_number = 0
        self.imported: float | None = None
        """Time of the end of torch's import, of the monotonic clock; None if it goes on, or failed."""
        self._torch: asyncio.Future[TorchInfo] | None = None
        self._reader: asyncio.Task[None] | None = None

    def listen(self) -> None:
        """Begin to read its messages; call once, inside the running event loop."""
        self._torch = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read())

    async def torch(self) -> TorchInfo:
        """Return the installed torch, once the import is done."""
        assert self._torch is not None
        return await asyncio.shield(self._torch)

    def torch_seconds(self) -> float:
        """Return the seconds since the import of torch began."""
        return round(time.monotonic() - self.started, 3)

    @property
    def importing(self) -> bool:
        """Return whether the import of torch has not ended yet."""
        return self._torch is None or not self._torch.done()

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        assert self._torch is not None
        while True:
            try:
                data = await loop.sock_recv(self.control, MAX_MESSAGE)
            except OSError:
                data = b""
            if not data:
                break
            try:
                self._take(json.loads(data), self._torch)
            except (ValueError, LookupError, TypeError, AttributeError, BadFacts):
                break  # another process writes there, not the zygote
        if not self._torch.done():
            self._torch.set_result(
                ended(await self._status(), read_end(self.output_fd, IMPORT_OUTPUT_KEPT), self.torch_seconds())
            )
        for child in self.children.values():
            child.exited.set()

    def _take(self, message: dict[str, Any], torch: asyncio.Future[TorchInfo]) -> None:
        """Take one message of the zygote."""
        if "ready" in message and not torch.done():
            self.imported = time.monotonic()
            torch.set_result(info(message, self.process.pid))
        elif "spawned" in message and message["spawned"] in self.children:
            child = self.children[message["spawned"]]
            child.pid = message["pid"]
            child.spawned.set()
        elif "exited" in message and message["exited"] in self.children:
            child = self.children.pop(message["exited"])
            child.exit_status = message["status"]
            child.exited.set()

    async def _status(self) -> int | None:
        """Return the exit status of the zygote, whose end is known a moment before it; None if it does not arrive."""
        end = time.monotonic() + 1.0
        while (status := self.process.poll()) is None and time.monotonic() < end:
            await asyncio.sleep(0.01)
        return status

    def spawn(self, name: str, env: Mapping[str, str | None] | None = None) -> Child:
        """Return a new process called ``name``, with ``env`` laid over this process's environment. Raises Died."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        output = nameless_file(name)
        number = self.next_number
        self.next_number += 1
        child = Child(number, ours, output, self)
        self.children[number] = child
        message = json.dumps({"spawn": number, "name": name, "env": dict(env or {})}).encode()
        try:
            self._send(message, [theirs.fileno(), output])
        except OSError as err:
            raise Died(f"the process that holds torch is gone ({err})") from None
        finally:
            theirs.close()
        return child

    def send(self, message: dict[str, Any]) -> None:
        """Send one message; nothing happens if the zygote is gone."""
        try:
            self._send(json.dumps(message).encode(), [])
        except OSError:
            pass

    def _send(self, message: bytes, fds: list[int]) -> None:
        try:
            socket.send_fds(self.control, [message], fds)
        except BlockingIOError:  # some hundred messages wait there: it is busy, and none may get lost
            waiting = select.poll()
            waiting.register(self.control, select.POLLOUT)
            waiting.poll(BUSY_SECONDS * 1000)
            socket.send_fds(self.control, [message], fds)

    def stop(self) -> None:
        """End it and all it forked; when this returns they are gone, and with them every port they held."""
        if self._reader is not None:
            self._reader.cancel()
        self.control.close()  # it then kills and reaps its children and ends
        try:
            self.process.wait(2.0)
        except subprocess.TimeoutExpired:
            self.process.kill()  # its children die with it (PR_SET_PDEATHSIG)
            self.process.wait()
        reap_orphans()
        for child in list(self.children.values()):
            child.close()
        os.close(self.output_fd)


def adopt_orphans() -> None:
    """Become the parent of grandchildren whose parent dies, so that none stays a zombie under an idle init."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def reap_orphans(seconds: float = 1.0) -> None:
    """Wait until no child of this process is left, at most ``seconds``."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.005)
        except ChildProcessError:
            return


def read_end(fd: int, size: int) -> str:
    """Return the last ``size`` bytes of a file, as text; empty if unreadable."""
    try:
        return os.pread(fd, size, max(0, os.fstat(fd).st_size - size)).decode(errors="replace")
    except OSError:
        return ""
