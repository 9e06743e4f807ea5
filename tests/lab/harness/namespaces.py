"""Linux namespaces held open by an anchor process, entered with nsenter(1)."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from tests.helpers.programs import PATH, missing

# Process 1 of a namespace: ignores SIGCHLD, so that the orphans it inherits do not stay as zombies.
_INIT = (
    "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nprint('ready', flush=True)\nwhile 1: signal.pause()"
)
TOOLS = ("unshare", "nsenter", "setpriv", "ip", "mount", "env")
OPTIONAL = ("nft", "iptables", "tc", "sysctl")
"""What single faults need: where it is not installed, only those cannot be made."""


_ENV = {**os.environ, "PATH": PATH}


class LabUnavailable(Exception):
    """This machine cannot hold a lab, or not this fault; the text says what is missing. Tests are skipped with it."""


@lru_cache
def why_not() -> str | None:
    """Why no lab can be built here, or None where one can."""
    if reason := missing(TOOLS):
        return reason
    command = [*_unshare("--net", "--uts", "--mount", "--pid"), "ip", "link", "add", "lab0", "type", "bridge"]
    tried = subprocess.run(command, check=False, capture_output=True, text=True, env=_ENV, timeout=20)
    if tried.returncode:
        return f"no namespaces with a bridge here: {tried.stderr.strip() or tried.returncode}"
    return None


def _unshare(*kinds: str) -> list[str]:
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, *kinds, "--fork", "--kill-child"]


class Anchor:
    """One set of namespaces and the process that holds them.

    ``outer`` is the anchor inside whose process and mount namespaces this one lies. Killing an anchor kills every
    process inside it, and all namespaces nested in it; it dies by itself with the process that made it.
    """

    def __init__(self, outer: Anchor | None = None) -> None:
        make = ["setpriv", "--pdeathsig", "KILL"]
        if outer is None:
            make += _unshare("--net", "--mount", "--uts", "--pid")
        else:
            make += [*outer.enter(), "unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child"]
        self._process = subprocess.Popen(
            [*make, "--mount-proc", sys.executable, "-S", "-E", "-c", _INIT],
            env=_ENV,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        if self._process.stdout.readline() != "ready\n":
            self._process.kill()
            raise LabUnavailable(f"no namespaces here: {self._process.stderr.read().strip()}")
        *_, self.pid = descendants(self._process.pid)
        self._user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]

    def enter(self, *kinds: str) -> list[str]:
        """The command prefix that runs a command inside: in all its namespaces, or in those of ``kinds`` only."""
        chosen = kinds or ("--net", "--uts", "--mount", "--pid")
        return ["nsenter", "--target", str(self.pid), *self._user, *chosen, "--"]

    def has_user(self, uid: int) -> bool:
        """Whether a process inside can become that user: without root, only one user number is known in there."""
        spans = [line.split() for line in Path(f"/proc/{self.pid}/uid_map").read_text().splitlines()]
        return any(int(first) <= uid < int(first) + int(count) for first, _, count in spans)

    def path(self, inside: str) -> Path:
        """Return where this process finds the file that has the absolute path ``inside`` in there."""
        return Path(f"/proc/{self.pid}/root{inside}")

    def pids(self) -> list[int]:
        """The processes inside (by their numbers out here), without the anchor itself; zombies do not count."""
        namespace = _namespace(self.pid)
        return [pid for pid in all_pids() if pid != self.pid and _namespace(pid) == namespace and not _zombie(pid)]

    def close(self) -> None:
        """Kill everything inside and wait until it is gone (5 s at most)."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + 5
        while Path(f"/proc/{self.pid}").exists() and not _zombie(self.pid) and time.monotonic() < deadline:
            time.sleep(0.005)
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


def all_pids() -> list[int]:
    """Every process that this one can see."""
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def children(pid: int) -> list[int]:
    """The direct children of a process, oldest first."""
    try:
        return sorted(int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    except OSError:
        return []


def descendants(pid: int) -> Iterator[int]:
    """The chain from ``pid`` down along first children, ``pid`` itself first."""
    while True:
        yield pid
        below = children(pid)
        if not below:
            return
        pid = below[0]


def _namespace(pid: int) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return None


def _zombie(pid: int) -> bool:
    try:
        return bool(re.search(r"^State:\s+[ZX]", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE))
    except OSError:
        return True


def command_line(pid: int) -> str:
    """The command of a process in one line, empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def run(command: Sequence[str], text: str | None = None) -> str:
    """Run a command of the lab's own (never of what is examined) and give its output.

    Raises LabUnavailable where it failed for want of an ``OPTIONAL`` program, RuntimeError where it failed otherwise.
    """
    done = subprocess.run(command, check=False, input=text, capture_output=True, text=True, env=_ENV, timeout=30)
    if done.returncode:
        if reason := missing(tool for tool in OPTIONAL if re.search(rf"\b{tool}: (command )?not found", done.stderr)):
            raise LabUnavailable(reason)
        raise RuntimeError(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout
