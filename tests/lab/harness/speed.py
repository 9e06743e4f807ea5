"""How slow this machine is for a row, so that a bound in seconds means the same on a busy one; and a busy one made."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

HOSTS = 2
QUIET_SECONDS = 2.0
"""What ``HOSTS`` imports of torch side by side take on the quiet two cores that the bounds were set for."""
EVERY = 0.5
"""Seconds from one look at the processors to the next."""
MOST = 0.99
"""Of the share that others took no more is told: a bound stays a bound."""
_LOADS: set[int] = set()
"""The processes of ``load``: they are ours, and no row's."""


def slowness() -> float:
    """1 on such a machine or a faster one, 2 where the same takes twice the time just now."""
    started = time.monotonic()
    imports = [
        subprocess.Popen([sys.executable, "-c", "import torch.distributed"], stderr=subprocess.DEVNULL, env=os.environ)
        for _ in range(HOSTS)
    ]
    for process in imports:
        process.wait()
    return max(1.0, (time.monotonic() - started) / QUIET_SECONDS)


class Look(NamedTuple):
    """The processors at one moment: when (seconds of the monotonic clock), and seconds of them taken since boot."""

    at: float
    all: float
    """By whoever it was, and by other machines on the same hardware; without the kernel's own for interrupts."""
    own: float
    """By this process and what it started, ended or not; the rows of the lab are that."""


class Others:
    """What others than this process and its descendants took of the processors while it was open.

    A context manager; it looks each ``EVERY`` seconds, so that a span within can be asked for.
    """

    def __init__(self) -> None:
        self._looks = [look()]
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Others:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._thread.join()
        self._looks.append(look())

    def _watch(self) -> None:
        while not self._closed.wait(EVERY):
            self._looks.append(look())

    def slowness(self, since: float, until: float) -> float:
        """Return how many times longer things took from ``since`` to ``until`` (of the monotonic clock) than with all
        processors to themselves: others who took the share o of them leave 1 - o. 1 where nobody else ran."""
        first = next((one for one in reversed(self._looks) if one.at <= since), self._looks[0])
        last = next((one for one in self._looks if one.at >= until), self._looks[-1])
        there = (last.at - first.at) * (os.cpu_count() or 1)
        if there <= 0:
            return 1.0
        others = (last.all - first.all) - (last.own - first.own)
        return 1 / (1 - min(MOST, max(0.0, others / there)))


def look() -> Look:
    """The processors now."""
    tick = os.sysconf("SC_CLK_TCK")
    user, nice, system, _idle, _iowait, _irq, _softirq, steal, *_ = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return Look(time.monotonic(), (user + nice + system + steal) / tick, _own_ticks() / tick)


def _own_ticks() -> int:
    parents, ticks = dict[int, int](), dict[int, int]()
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        try:
            fields = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(entry.name)
        parents[pid] = int(fields[1])
        # Its own time, and that of those that it started, which have ended and were waited for.
        ticks[pid] = sum(map(int, fields[11:15]))
    own, me = 0, os.getpid()
    for pid, taken in ticks.items():
        above: int | None = pid
        while above not in (me, None) and above not in _LOADS:
            above = parents.get(above) if above is not None else None
        own += taken if above == me else 0
    return own


@contextmanager
def load(busy: bool) -> Iterator[None]:
    """A process on each core that does nothing but work, where ``busy``."""
    count = os.cpu_count() or 1 if busy else 0
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    _LOADS.update(spinner.pid for spinner in spinners)
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
            _LOADS.discard(spinner.pid)
