"""Progress of a remote run for one observer: connected hosts, and each stage once all have ended it."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from distdoctor import streams
from distdoctor.model.observer import Observer
from distdoctor.model.plan import Plan
from distdoctor.model.stages import STAGES, stage_index
from distdoctor.render.words import fold_short

MOST_NOTES, MOST_TEXT = 1000, 4096
"""Limits of the different notes of all hosts, and of the characters of one."""
MOST_REPEATED = 3
"""Limit of the hosts that are named if all are gone for the same reason."""
FEW, EVERY_SECONDS = 20, 0.5
"""For more hosts, the interval of the line with the awaited ones: to word their names at each stage of each would take
this machine's time from the connections."""
_WORST_FIRST = ("error", "failed", "skipped", "ok")


class Progress:
    """Receiver of the hosts' messages (``distdoctor.remote.fanout.Watcher``), which passes them to the observer."""

    def __init__(self, observer: Observer, hosts: Sequence[str]) -> None:
        self._observer, self._hosts = observer, list(hosts)
        self._running = set(hosts)
        self._ended: dict[str, dict[str, tuple[str, str]]] = {}
        """Stage -> host -> status and reason."""
        self._began: dict[str, float] = {}
        self._reported: set[str] = set()
        self._notes: set[str] = set()
        self._gone: Counter[str] = Counter()
        """Number of hosts that are gone, by reason without their names."""
        self._waits = self._stage = ""
        self._worded = 0.0
        """Time of the last wording of what is awaited."""

    def hello(self, present: Sequence[str], left: float) -> None:
        """Report the connected hosts."""
        self._observer.waiting(present, len(self._hosts), "hosts", left)

    def gone(self, host: str, why: str) -> None:
        """Report it at once; its finding is in the report."""
        alike = why.replace(host, "")
        self._gone[alike] += 1
        if self._gone[alike] <= MOST_REPEATED:
            self._observer.note(f"{host}: {why}")
        elif self._gone[alike] == MOST_REPEATED + 1:
            self._observer.note(f"{host}: {why}; further hosts of which the same is to be said are in the report")
        self.done(host)

    def done(self, host: str) -> None:
        """Stop waiting for this host."""
        self._running.discard(host)
        for stage in STAGES:
            if stage in self._began:
                self._report_stage(stage)

    def event(self, host: str, event: Mapping[str, Any]) -> None:
        """Take a start or end of a stage there, or a note; of equal notes, the first is printed."""
        stage, status = str(event.get("stage", "")), str(event.get("status", ""))
        if "note" in event:
            text = str(event["note"])[:MOST_TEXT]
            if text not in self._notes and len(self._notes) < MOST_NOTES:
                self._notes.add(text)
                self._observer.note("\n".join(f"{host}: {line}" for line in text.splitlines()))
        elif stage in STAGES:
            if stage not in self._began:
                self._began[stage] = time.monotonic()
                self._wait()
            if status in _WORST_FIRST:
                self._ended.setdefault(stage, {})[host] = status, str(event.get("reason", ""))[:MOST_TEXT]
                self._report_stage(stage)
            self._wait()

    def _report_stage(self, stage: str) -> None:
        """Report the end of a stage, once it has ended on every host that is still at work."""
        ended = self._ended.get(stage, {})
        if stage in self._reported or not ended or self._running - {*ended}:
            return
        self._reported.add(stage)
        worst = min((status for status, _ in ended.values()), key=_WORST_FIRST.index)
        worst = "ok" if worst == "skipped" and any(status == "ok" for status, _ in ended.values()) else worst
        first = next(host for host in self._hosts if ended.get(host, ("",))[0] == worst)
        reason = ended[first][1]
        if worst in ("failed", "error"):
            reason = f"{first}: {reason}" if reason else first
        self._observer.stage_ended(stage, worst, time.monotonic() - self._began[stage], reason)

    def _wait(self) -> None:
        """Report what is awaited: the last running stage, and its hosts."""
        under_way = [stage for stage in self._began if stage not in self._reported]
        stage = max(under_way, key=stage_index) if under_way else ""
        at_work, now = self._running - {*self._ended.get(stage, {})}, time.monotonic()
        if stage == self._stage and len(at_work) > FEW and now - self._worded < EVERY_SECONDS:
            return
        self._stage, self._worded = stage, now
        left = [host for host in self._hosts if host in at_work] if stage else []
        text = f"{stage} on {fold_short(left)}" if left else stage
        if text != self._waits:
            if self._waits:
                self._observer.waited(self._waits)
            if text:
                self._observer.waits(text)
            self._waits = text


def observer_of(quiet: bool, plan: Plan | None = None) -> Observer:
    """Return the observer on stderr: this process's own with its ``plan`` in a run, else that of all."""
    from distdoctor.render.progress import observer_for

    return observer_for(
        plan or Plan(),
        quiet=quiet,
        terminal=streams.is_terminal(sys.stderr),
        ascii_only=streams.ascii_only(sys.stderr),
        colour=streams.wants_colour(sys.stderr),
        write=lambda text: streams.write(text, sys.stderr, drawn=True),
    )
