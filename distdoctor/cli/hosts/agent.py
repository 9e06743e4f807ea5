"""``distdoctor remote``: one host's part of a remote run, such as ``check --hosts``.

It reads its order on stdin and writes its facts to stdout, in lines (``distdoctor.remote.fanout``). When the connection
ends, or is silent for too long, the run here ends within 2 s.
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
from distdoctor.model.launch_settings import NNODES, NODE_RANK
from distdoctor.model.observer import Observer
from distdoctor.plan.job_command import read_job_command
from distdoctor.plan.job_line import JobLine
from distdoctor.plan.values import Flags
from distdoctor.remote.connection import BEAT_SECONDS, MOST_BYTES, SILENT_SECONDS, deflated, packed, unpacked
from distdoctor.render.exit_status import OK, exit_status

if TYPE_CHECKING:
    from distdoctor.model.facts import NodeFacts


LEAVING_SECONDS = 1.5
"""Limit of sending what is known once the connection has ended."""
WITHOUT_SOME = 5.0
"""``--wait`` if it is known that a host will not join: all others begin at one moment."""


class StarterConnection:
    """Connection to the machine that started the run."""

    def __init__(self) -> None:
        self.order: dict[str, Any] = {}
        self.missing: list[str] = []
        self._ordered = threading.Event()
        self._go = threading.Event()
        self._ended = False
        self._writing = threading.Lock()

    def greet(self, **message: Any) -> None:
        """Send the first message, then listen: the end of the connection is noticed only after it is out."""
        self.send(**message)
        threading.Thread(target=self._listen, name="order", daemon=True).start()

    def send(self, **message: Any) -> None:
        """Send one message. Without a reader the run ends."""
        data = packed(message)
        with self._writing:
            try:
                while data:
                    data = data[os.write(1, data) :]
            except OSError:
                self._end()

    def what(self) -> dict[str, Any]:
        """Return the order, once it has arrived: its inputs can be loaded before all begin."""
        while not self._ordered.wait(0.5):
            pass
        return self.order

    def wait(self) -> None:
        """Wait until all are to begin."""
        while not self._go.wait(0.5):
            pass

    def _listen(self) -> None:
        """Take messages, in a thread, and answer with a beat."""
        rest, heard, beat = b"", time.monotonic(), time.monotonic()
        while not self._ended:
            ready, _, _ = select.select([0], [], [], BEAT_SECONDS / 2)
            now = time.monotonic()
            if now - beat >= BEAT_SECONDS:
                beat = now
                self.send(beat=True)
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
        """End as on a signal, and for certain a moment later: the connection is gone, or the run is interrupted."""
        if not self._ended:
            self._ended = True
            if why:
                streams.write(f"distdoctor: {why}: the run here ends\n", sys.stderr)
            timer = threading.Timer(LEAVING_SECONDS, os._exit, (128 + signal.SIGHUP,))
            timer.daemon = True
            timer.start()
            os.kill(os.getpid(), signal.SIGTERM)


class SendingObserver(Observer):
    """Observer that sends the progress to the machine that started the run."""

    def __init__(self, order: StarterConnection) -> None:
        self._order = order

    def stage_started(self, stage: str, most: float | None = None) -> None:
        """Send it."""
        self._order.send(stage=stage)

    def stage_ended(self, stage: str, status: str, seconds: float, reason: str) -> None:
        """Send it."""
        self._order.send(stage=stage, status=status, seconds=seconds, reason=reason)

    def note(self, text: str) -> None:
        """Send it."""
        self._order.send(note=text)


def remote() -> int:
    """Carry out the order, and send the result. Return the status of this host's own view."""
    line = StarterConnection()
    line.greet(hello=True, distdoctor=__version__, host=socket.gethostname(), pid=os.getpid(), machine=_machine())
    order = line.what()
    task = order.get("task", "check")
    if task not in TASKS and (task != "check" or "flags" not in order):
        raise UsageError("remote is started by `distdoctor check --hosts`, which tells it what to do")
    _settle(order)
    if task in TASKS:
        line.wait()
        return TASKS[task](line, order)
    # Until the last of the hosts is connected, this one imports torch and loads the checks.
    how = RunFlags(**order["how"])
    begin_for(how.until)
    flags = Flags(**order["flags"])
    job = _job_line([str(word) for word in order.get("line", ())], flags)
    options = CheckCommand(flags, how, ReportFlags(quiet=True), line=job).options()
    roster = tuple(str(name) for name in order.get("roster", ()))
    sources = _sources(options.plan.sources, order.get("way", ""))
    plan = replace(options.plan, sources=sources, roster=roster, shell=_shell_only(order.get("shell", {})))
    from distdoctor.model.facts import encode
    from distdoctor.session.run import run

    def keep(facts: NodeFacts) -> None:
        line.send(facts=deflated(encode(facts)))

    line.wait()
    interrupts.hold()  # an order to stop that arrives now is the session's: it prints what is known, however little
    wait = min(options.wait, WITHOUT_SOME) if line.missing else options.wait
    outcome = run(replace(options, plan=plan, keep=keep, wait=wait), SendingObserver(line), lambda report: None)
    return exit_status(outcome.report, "fail", outcome.exit_signal)


def _machine() -> str:
    """Return a key that two names for one machine, or one container, share; empty if unreadable."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return " ".join(
            (socket.gethostname(), boot, *(os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "pid")))
        )
    except OSError:
        return ""


def _settle(order: Mapping[str, Any]) -> None:
    """Apply the variables and the folder of the machine that started the run, if the folder exists here, too."""
    os.environ.update({str(name): str(value) for name, value in order.get("env", {}).items()})
    folder = Path(str(order.get("cwd", "")))
    try:
        os.chdir(folder)
    except OSError:
        pass


def _shell_only(shell: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the shell that started the run, without those that are the same in this process."""
    here = os.environ
    return {
        str(name): str(value)
        for name, value in shell.items()
        if (here.get(name) != value if value else name not in here)
    }


def _job_line(words: Sequence[str], flags: Flags) -> JobLine | None:
    """Return the job's own line as this node has it: by the variables and files of this host.

    One line stands for all hosts: an engine's nodes beyond the first serve nobody. The line's note is printed where it
    was typed.
    """
    try:
        line = read_job_command(words, os.environ) if words else None
        if line is not None and line.engine and flags.node_rank:
            further = read_job_command([*words, NODE_RANK.flag, str(flags.node_rank), "--headless"], os.environ)
            # Options inside a shell's text stay as they are: which ports are the first node's is unknown then.
            line = replace(further, ports=() if further.ports == line.ports else further.ports)
    except ValueError:
        return None
    if line is None:
        return None
    os.environ.update(line.env or {})
    of_all = f"{NNODES.flag}={flags.nnodes}" in line.flags
    mesh: dict[str, Any] = {} if of_all else {"mesh": (), "mesh_order": ()}  # else it is that of fewer nodes
    return replace(line, note="", **mesh)


def _sources(sources: Mapping[str, str], flag: str) -> dict[str, str]:
    """Return the sources of the plan as the person who started the run gave them."""
    given = ("nnodes", "node_rank", "master_addr")
    return {
        name: flag if flag and name in given and source.startswith("--") else source for name, source in sources.items()
    }


# Further tasks of a host in a remote run: look at the job (``hang``), send files (``diagnose``).


BLOCK = 1 << 20
"""Bytes of a file in one message."""


class ReplyConnection(Protocol):
    """Connection to the machine that started the command."""

    def send(self, **message: Any) -> None:
        """Send one message."""


def look(line: ReplyConnection, order: Mapping[str, Any]) -> int:
    """Send the facts of the selected job for ``hang``, or the reason that there are none."""
    from distdoctor.hang.inspect import NoJob, Wanted, inspect
    from distdoctor.model.facts import encode

    try:
        line.send(facts=deflated(encode(inspect(Wanted(**order["wanted"])))))
    except NoJob as err:
        line.send(nothing=str(err))
    return OK


def hand_over(line: ReplyConnection, order: Mapping[str, Any]) -> int:
    """Send the requested files for ``diagnose``, as they are."""
    from distdoctor.logs.reading.reader import Unreadable, find

    left = MOST_BYTES
    for pattern in order["files"]:
        try:
            for source in find(_meant(str(pattern))):
                if source.path is not None:
                    left -= _hand_over(line, source.path, left)
        except (Unreadable, OSError) as err:
            line.send(unread=str(err))
    line.send(sent=True)
    return OK


def _meant(pattern: str) -> Sequence[Path]:
    """Return the paths of a shell pattern here; itself, if it is the name of a file or matches nothing."""
    pattern = os.path.expanduser(pattern)
    found = [] if os.path.lexists(pattern) else sorted(glob.glob(pattern, recursive=True))
    return [Path(one) for one in found or [pattern]]


def _hand_over(line: ReplyConnection, path: Path, most: int) -> int:
    """Send one file. Return its bytes. Nothing is read of /proc and of anything but regular files."""
    if not path.is_file():
        line.send(unread=f"{path}: not a regular file")
        return 0
    seen = path.stat()
    if seen.st_size > most:
        line.send(unread=f"{path}: with it, more than {MOST_BYTES >> 30} GiB: copy it here, or name fewer files")
        return 0
    # The last three identify the same file of a file system that several hosts share.
    line.send(file=str(path), seen=[seen.st_size, seen.st_mtime_ns, seen.st_ino])
    for block in _blocks(path, seen.st_size):
        line.send(data=base64.b64encode(zlib.compress(block, 1)).decode())
    return seen.st_size


def _blocks(path: Path, size: int) -> Iterator[bytes]:
    """Yield the current content of the file: one that grows would never end."""
    with path.open("rb") as file:
        while size > 0 and (block := file.read(min(BLOCK, size))):
            size -= len(block)
            yield block


TASKS: dict[str, Callable[[Any, Mapping[str, Any]], int]] = {"hang": look, "files": hand_over}
