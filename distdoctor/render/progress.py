"""Progress on stderr while a command runs: the observers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from distdoctor.model.observer import Observer
from distdoctor.model.text import clean
from distdoctor.render.words import fold_short

if TYPE_CHECKING:
    from distdoctor.model.plan import Plan


HEARTBEAT = 10.0
"""Seconds of silence after which a line says what is being waited for."""
AGAIN = 30.0
"""Seconds after which the progress so far is printed again, with the time."""
CALL_SECONDS = 3.0
"""The roll is called every second while nodes are waited for."""

_WORDS = {"ok": "ok", "failed": "FAILED", "skipped": "skipped", "error": "ERROR"}


def announcement(line: str, nnodes: int) -> str:
    """The block that tells the user what to run on the other nodes."""
    others = nnodes - 1
    where = "the other node" if others == 1 else f"each of the other {others} nodes"
    return f"This host is node 0. Run this on {where} (not here):\n\n    {clean(line)}\n"


class Pending:
    """Stages and waits that have begun and not ended. Not locked: its owner is."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[float, float | None]] = {}

    def begin(self, what: str, most: float | None) -> None:
        """``what`` begins, and takes at most ``most`` seconds where that is known."""
        self._begun.pop(what, None)
        self._begun[what] = (time.monotonic(), most)

    def end(self, what: str) -> None:
        """``what`` has ended."""
        self._begun.pop(what, None)

    def latest(self) -> tuple[str, float, str] | None:
        """The last to begin of what goes on, the seconds it has taken, and how long it may take, in words."""
        if not self._begun:
            return None
        what, (began, most) = next(reversed(self._begun.items()))
        took = time.monotonic() - began
        return what, took, f" (at most {most:.0f} s)" if most is not None else ""


def _start_thread(function: Callable[[], None], name: str) -> None:
    """Run it in a thread of its own, unless no further thread is allowed."""
    with suppress(RuntimeError):
        threading.Thread(target=function, name=name, daemon=True).start()


class Plain(Observer):
    """Progress on a stderr that is no terminal: one line per event, and a heartbeat in long waits.

    ``write`` gets whole lines; ``quiet`` leaves only notes and the announcement.
    """

    def __init__(self, write: Callable[[str], None], *, quiet: bool = False) -> None:
        self._write, self._quiet = write, quiet
        self._lock = threading.Lock()
        self._last = time.monotonic()
        self._under_way = Pending()
        self._failures: dict[str, float] = {}
        """Known failure -> time at which it was last printed."""
        self._present: tuple[str, ...] | None = None
        self._called = 0.0
        """Time of the last roll call; while it goes on, its lines name the missing nodes."""
        self._closed = threading.Event()
        if not quiet:
            _start_thread(self._beat, "heartbeat")

    def stage_started(self, stage: str, most: float | None = None) -> None:
        """Remember what is being done, for the heartbeat."""
        self.waits(stage, most)

    def waits(self, what: str, most: float | None = None) -> None:
        """Print a wait outside the stages."""
        with self._lock:
            self._under_way.begin(what, most)

    def waited(self, what: str) -> None:
        with self._lock:
            self._under_way.end(what)

    def stage_ended(self, stage: str, status: str, seconds: float, reason: str) -> None:
        """Print a line for the stage."""
        self.waited(stage)
        # What is left out because of a failure is as many lines again; the report has it in one.
        if not self._quiet and not reason.startswith("needs "):
            self._print(f"{stage}: {_WORDS.get(status, status)}, {seconds:.2f} s" + (f" ({reason})" if reason else ""))

    def note(self, text: str) -> None:
        """Print it at once, also when quiet."""
        for line in text.splitlines():
            self._print(line)

    def failure_so_far(self, key: str, text: str, waited: str) -> None:
        """Print it if it is new, also when quiet; then every AGAIN seconds."""
        now, before = time.monotonic(), self._failures.get(key)
        if before is None or (not self._quiet and now - before >= AGAIN):
            self._failures[key] = now
            self._print(f"{text} ({waited})")

    def announce(self, line: str, nnodes: int) -> None:
        """Print the command for the other nodes, also when quiet."""
        with self._lock:
            self._last = time.monotonic()
            self._write(announcement(line, nnodes) + "\n")

    def waiting(self, present: Sequence[str], expected: int, what: str, left: float) -> None:
        """Print a line whenever a node joined, and every HEARTBEAT seconds."""
        if self._quiet:
            return
        self._called = time.monotonic()
        changed = self._present != tuple(present)
        if changed or time.monotonic() - self._last >= HEARTBEAT:
            self._present = tuple(present)
            self._print(roll_call(present, expected, what, left))

    def close(self) -> None:
        """End the heartbeat. Nothing is printed after this."""
        self._closed.set()

    def _print(self, line: str) -> None:
        with self._lock:
            self._last = time.monotonic()
            if not self._closed.is_set():
                self._write(f"distdoctor: {clean(line)}\n")

    def _beat(self) -> None:
        while not self._closed.wait(1.0):
            with self._lock:
                silent, latest = time.monotonic() - self._last, self._under_way.latest()
            calling = time.monotonic() - self._called < CALL_SECONDS
            if latest is not None and silent >= HEARTBEAT and not calling:
                what, took, most = latest
                self._print(f"{what}: still running after {took:.0f} s{most}")


class Terminal(Observer):
    """Progress for a person at a terminal: one line that lives, and notes that stay above it."""

    def __init__(self, write: Callable[[str], None], *, ascii_only: bool = False, colour: bool = True) -> None:
        self._write = write
        self._frames = "|/-\\" if ascii_only else "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
        self._colour = colour
        self._lock = threading.Lock()
        self._roll_call = self._waited = ""
        self._under_way = Pending()
        self._drawn = False
        self._closed = threading.Event()
        _start_thread(self._spin, "spinner")

    def stage_started(self, stage: str, most: float | None = None) -> None:
        """Show the stage."""
        self.waits(stage, most)

    def waits(self, what: str, most: float | None = None) -> None:
        """Show what is waited for now."""
        with self._lock:
            self._roll_call = self._waited = ""
            self._under_way.begin(what, most)

    def waited(self, what: str) -> None:
        """Show what is still waited for."""
        with self._lock:
            self._waited = ""
            self._under_way.end(what)

    def stage_ended(self, stage: str, status: str, seconds: float, reason: str) -> None:
        """Show a failure at once; the report has the ends of the other stages."""
        self.waited(stage)
        if status in ("failed", "error"):
            self.note(f"{stage}: {_WORDS[status]}" + (f" ({reason})" if reason else ""))

    def note(self, text: str) -> None:
        """Print a line that stays."""
        self._above("".join(f"{clean(line)}\n" for line in text.splitlines()))

    def failure_so_far(self, key: str, text: str, waited: str) -> None:
        """Print a line that stays if it is new; the time is in the line that lives."""
        with self._lock:
            self._waited = f"still waiting ({waited})"
        if key not in self._known:
            self._known |= {key}
            self.note(text)

    def announce(self, line: str, nnodes: int) -> None:
        """The block for the other nodes, which stays."""
        self._above("\n" + announcement(line, nnodes) + "\n")

    def waiting(self, present: Sequence[str], expected: int, what: str, left: float) -> None:
        """Print the nodes that joined and the time left for the others."""
        with self._lock:
            self._roll_call = roll_call(present, expected, what, left)

    def close(self) -> None:
        """Clear the line; nothing is drawn after this."""
        with self._lock:
            self._closed.set()
            self._erase()

    def _line(self) -> str:
        """Return what is waited for and for how long at most; empty where it is nothing."""
        latest = self._under_way.latest()
        if self._roll_call or self._waited or latest is None:
            return clean(self._roll_call or self._waited)
        what, took, most = latest
        return clean(what) + (f" {took:.0f} s{most}" if took >= 1 else "")

    def _above(self, text: str) -> None:
        with self._lock:
            if not self._closed.is_set():
                self._erase()
                self._write(text)

    def _erase(self) -> None:
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = False

    def _spin(self) -> None:
        import shutil

        turn = 0
        while not self._closed.wait(0.1):
            turn += 1
            with self._lock:
                line = self._line()
                if self._closed.is_set():
                    continue
                if not line:
                    self._erase()
                    continue
                frame = self._frames[turn % len(self._frames)]
                width = shutil.get_terminal_size().columns - 3
                styled = f"\x1b[36m{frame}\x1b[0m" if self._colour else frame
                self._write(f"\r\x1b[K{styled} {line[:width]}")
                self._drawn = True


def roll_call(present: Sequence[str], expected: int, what: str, left: float) -> str:
    """Return who joined and how long the others have left, in one line."""
    who = f" ({fold_short(present)})" if present else ""
    return f"waiting for {what}: {len(present)} of {expected}{who}, {max(left, 0):.0f} s left"


def observer_for(
    plan: Plan, *, quiet: bool, terminal: bool, ascii_only: bool, colour: bool, write: Callable[[str], None]
) -> Observer:
    """The observer for this process: of the ranks of one job, only the first of the node speaks."""
    if plan.started == "rank" and (plan.local_rank or 0) != 0:
        return Observer()
    another = plan.task not in (0, None) or (plan.started == "rank" and plan.rank not in (0, None))
    if quiet or another or plan.restart:
        return Plain(write, quiet=True)
    if terminal:
        return Terminal(write, ascii_only=ascii_only, colour=colour)
    return Plain(write)
