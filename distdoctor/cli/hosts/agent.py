"""``distdoctor remote``: one host's part of a run that is started from one place, as ``check --hosts``.

Its order comes on stdin, and what it sees goes to stdout, in lines (``distdoctor.remote.fanout``). When the line ends,
or is silent for too long, the run here ends within 2 s.
"""

from __future__ import annotations

import base64
import glob
import os
import select
import signal
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from distdoctor import __version__, interrupts, streams
from distdoctor.cli.check import CheckCommand
from distdoctor.cli.options import ReportFlags, RunFlags
from distdoctor.cli.preload import begin_for
from distdoctor.model.errors import UsageError
from distdoctor.model.observer import Observer
from distdoctor.plan.values import Flags
from distdoctor.remote.connection import BEAT_SECONDS, MOST_BYTES, SILENT_SECONDS, deflated, packed, unpacked
from distdoctor.render.exit_status import OK, exit_status

if TYPE_CHECKING:
    from distdoctor.model.facts import NodeFacts


LEAVING_SECONDS = 1.5
"""How long telling what is known may take once the line has ended."""
WITHOUT_SOME = 5.0
"""``--wait`` where it is known already that a host will not come: those who will come all begin at one moment."""


class Order:
    """The line to the place that the run was started from."""

    def __init__(self) -> None:
        self.order: dict[str, Any] = {}
        self.missing: list[str] = []
        self._ordered = threading.Event()
        self._go = threading.Event()
        self._ended = False
        self._writing = threading.Lock()

    def greet(self, **message: Any) -> None:
        """Send the first message, then listen: not even the end of the line is seen before it is out."""
        self.tell(**message)
        threading.Thread(target=self._listen, name="order", daemon=True).start()

    def tell(self, **message: Any) -> None:
        """Send one message. Where nobody reads it any more, the run ends."""
        data = packed(message)
        with self._writing:
            try:
                while data:
                    data = data[os.write(1, data) :]
            except OSError:
                self._end()

    def what(self) -> dict[str, Any]:
        """The order, once it has come: what it needs can be got ready before all begin."""
        while not self._ordered.wait(0.5):
            pass
        return self.order

    def wait(self) -> None:
        """Until all are to begin."""
        while not self._go.wait(0.5):
            pass

    def _listen(self) -> None:
        """In a thread: take what comes, and answer with a beat."""
        rest, heard, beat = b"", time.monotonic(), time.monotonic()
        while not self._ended:
            ready, _, _ = select.select([0], [], [], BEAT_SECONDS / 2)
            now = time.monotonic()
            if now - beat >= BEAT_SECONDS:
                beat = now
                self.tell(beat=True)
            if not ready:
                if now - heard > SILENT_SECONDS:
                    self._end(f"nothing has come for {now - heard:.0f} s from where the run was started")
                continue
            heard = now
            try:
                data = os.read(0, 1 << 16)
            except OSError:
                data = b""
            if not data:
                self._end()
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        message = unpacked(line)
        if message is None:
            return
        if "way" in message:
            self.order = message
            self._ordered.set()
        elif "go" in message:
            self.missing = [str(name) for name in message.get("missing", ())]
            self._go.set()
        elif "stop" in message:
            self._end()

    def _end(self, why: str = "") -> None:
        """The line is gone, or the run is broken off: end as on a signal, and for certain a moment later."""
        if not self._ended:
            self._ended = True
            if why:
                streams.write(f"distdoctor: {why}: the run here ends\n", sys.stderr)
            timer = threading.Timer(LEAVING_SECONDS, os._exit, (128 + signal.SIGHUP,))
            timer.daemon = True
            timer.start()
            os.kill(os.getpid(), signal.SIGTERM)


class Teller(Observer):
    """Tells the other place how the run goes on here."""

    def __init__(self, order: Order) -> None:
        self._order = order

    def stage_started(self, stage: str, most: float | None = None) -> None:
        """Tell it."""
        self._order.tell(stage=stage)

    def stage_ended(self, stage: str, status: str, seconds: float, reason: str) -> None:
        """Tell it."""
        self._order.tell(stage=stage, status=status, seconds=seconds, reason=reason)

    def note(self, text: str) -> None:
        """Tell it."""
        self._order.tell(note=text)


def remote() -> int:
    """Do as ordered, and tell. The status is that of this host's own view."""
    line = Order()
    line.greet(hello=True, distdoctor=__version__, host=socket.gethostname(), pid=os.getpid(), machine=_machine())
    order = line.what()
    task = order.get("task", "check")
    if task not in TASKS and (task != "check" or "flags" not in order):
        raise UsageError("remote is started by `distdoctor check --hosts`, which tells it what to do")
    _settle(order)
    if task in TASKS:
        line.wait()
        return TASKS[task](line, order)
    # Until the last of the hosts is there, this one imports torch and loads the checks.
    how = RunFlags(**order["how"])
    begin_for(how.until)
    options = CheckCommand(Flags(**order["flags"]), how, ReportFlags(quiet=True)).options()
    roster = tuple(str(name) for name in order.get("roster", ()))
    plan = replace(options.plan, sources=_sources(options.plan.sources, order.get("way", "")), roster=roster)
    from distdoctor.model.facts import encode
    from distdoctor.session.run import run

    def keep(facts: NodeFacts) -> None:
        line.tell(facts=deflated(encode(facts)))

    line.wait()
    interrupts.hold()  # an order to stop that comes now is the session's: it tells what is known, however little
    wait = min(options.wait, WITHOUT_SOME) if line.missing else options.wait
    outcome = run(replace(options, plan=plan, keep=keep, wait=wait), Teller(line), lambda report: None)
    return exit_status(outcome.report, "fail", outcome.exit_signal)


def _machine() -> str:
    """Return what two names that lead to one machine, or one container, have in common; empty where that cannot be
    read."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return " ".join(
            (socket.gethostname(), boot, *(os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "pid")))
        )
    except OSError:
        return ""


def _settle(order: Mapping[str, Any]) -> None:
    """The variables and the folder of the place that the run was started from, where the folder is here, too."""
    os.environ.update({str(name): str(value) for name, value in order.get("env", {}).items()})
    folder = Path(str(order.get("cwd", "")))
    try:
        os.chdir(folder)
    except OSError:
        pass


def _sources(sources: Mapping[str, str], way: str) -> dict[str, str]:
    """Return where the plan comes from, as the person who started it gave it."""
    given = ("nnodes", "node_rank", "master_addr")
    return {
        name: way if way and name in given and source.startswith("--") else source for name, source in sources.items()
    }


# The tasks of a host in a remote run, beside a check: look at the job (``hang``), hand files over (``diagnose``).


BLOCK = 1 << 20
"""Bytes of a file that go into one message."""


class Line(Protocol):
    """The line to the place that the command was started from."""

    def tell(self, **message: Any) -> None:
        """Send one message."""


def look(line: Line, order: Mapping[str, Any]) -> int:
    """``hang``: the facts of the job that is meant, or why there are none."""
    from distdoctor.hang.inspect import NoJob, Wanted, inspect
    from distdoctor.model.facts import encode

    try:
        line.tell(facts=deflated(encode(inspect(Wanted(**order["wanted"])))))
    except NoJob as err:
        line.tell(nothing=str(err))
    return OK


def hand_over(line: Line, order: Mapping[str, Any]) -> int:
    """``diagnose``: the files that are asked for, as they are."""
    from distdoctor.logs.reading.reader import Unreadable, find

    left = MOST_BYTES
    for pattern in order["files"]:
        try:
            for source in find(_meant(str(pattern))):
                if source.path is not None:
                    left -= _hand_over(line, source.path, left)
        except (Unreadable, OSError) as err:
            line.tell(unread=str(err))
    line.tell(sent=True)
    return OK


def _meant(pattern: str) -> Sequence[Path]:
    """The paths that a pattern of the shell means here; itself, where it is the name of a file or means nothing."""
    pattern = os.path.expanduser(pattern)
    found = [] if os.path.lexists(pattern) else sorted(glob.glob(pattern, recursive=True))
    return [Path(one) for one in found or [pattern]]


def _hand_over(line: Line, path: Path, most: int) -> int:
    """Send one file; how many bytes it had. Of /proc and what is no file nothing is read."""
    if not path.is_file():
        line.tell(unread=f"{path}: not a regular file")
        return 0
    seen = path.stat()
    if seen.st_size > most:
        line.tell(unread=f"{path}: with it, more than {MOST_BYTES >> 30} GiB: copy it here, or name fewer files")
        return 0
    # The same file of a file system that several hosts share is known by the last three.
    line.tell(file=str(path), seen=[seen.st_size, seen.st_mtime_ns, seen.st_ino])
    for block in _blocks(path, seen.st_size):
        line.tell(data=base64.b64encode(zlib.compress(block, 1)).decode())
    return seen.st_size


def _blocks(path: Path, size: int) -> Iterator[bytes]:
    """Return what the file has now: one that grows would never end."""
    with path.open("rb") as file:
        while size > 0 and (block := file.read(min(BLOCK, size))):
            size -= len(block)
            yield block


TASKS: dict[str, Callable[[Any, Mapping[str, Any]], int]] = {"hang": look, "files": hand_over}
