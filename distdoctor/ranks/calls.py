"""One call in every rank's process of this node; a call that has not returned when the stage ends is killed."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from distdoctor.model.facts import RankStage
from distdoctor.model.text import shortened
from distdoctor.probes.host.limits import throttled_seconds
from distdoctor.probes.host.proc import STOPPED, listening, process_state, unanswered, waited
from distdoctor.ranks.subgroups import last_step
from distdoctor.ranks.supervisor import Child

GRACE_SECONDS = 1.0
"""Seconds for ranks to end by themselves once one rank's error has ended the stage."""
LATE_SECONDS = 2.0
"""Seconds beyond a stage's own, until a call that did not return is killed."""
STOPPED_SECONDS = 1.5
"""Seconds for which a rank's process may be stopped (SIGSTOP, a debugger) before the stage is over for it."""
OVERSLEPT_SECONDS = 15.0
"""Seconds beyond a stage's own, until when a process that did not run itself still reads its ranks' answers."""
STARVED = 0.5
"""Share of a stage's whole time without a processor that makes a failed rank a starved one."""
SILENT = ((5.0, 5), (8.0, 3))
"""(seconds, retransmissions) after which a connection of gloo's to another rank counts as unanswered, and the stage is
over. Linux retransmits after 1, 3 and 7 s, since 6.5 first every second (tcp_syn_linear_timeouts), and a peer that is
up answers the first, by its kernel alone. The links between the nodes were found good before."""
SILENT_HERE = (1.0, 1)
"""Limits for an address of this host from which a connection had no answer before: no packet gets lost on loopback."""
GLOO = ("gloo", "gloo-groups")
"""Calls that open connections of gloo's."""
GROUPS = ("gloo-groups", "nccl-groups")
LOOK_SECONDS = 0.5
MAX_ERROR = 1000
"""Characters kept of an error's text."""

Call = asyncio.Task[dict[str, Any]]


class RankCalls:
    """Calls of one stage, one per child.

    ``abort``: set if the stage has ended elsewhere. ``trouble``: called once, as soon as one rank here has failed.
    ``deaf``: address of this host at which its ports get no answer, if there is one. ``limited``: addresses that limit
    new connections per time, so that silence there may end.
    """

    def __init__(
        self,
        op: str,
        children: Sequence[Child],
        seconds: float,
        abort: asyncio.Event,
        trouble: Callable[[], Awaitable[None]],
        deaf: str | None = None,
        limited: Collection[str] = (),
    ) -> None:
        self.op, self.children, self.seconds, self.abort, self.trouble = op, children, seconds, abort, trouble
        self.deaf, self.limited = deaf, limited
        self.entries: dict[int, RankStage] = {}
        self.troubled = False
        self.stopped_since: dict[int, float] = {}
        self.silent: dict[int, str] = {}
        """Index of a rank -> peer that gives it no answer."""
        self.overslept = 0.0
        """Seconds for which this process itself did not run: it was stopped, or had no processor."""
        self.waited = [waited(child.pid) if child.pid is not None else 0.0 for child in children]
        self.throttled = throttled_seconds()

    async def run(self, arguments: Callable[[int], dict[str, Any]]) -> dict[int, RankStage]:
        """Return the end of the stage for each rank, by its index among the children."""
        self.started = time.monotonic()
        self.end = self.started + self.seconds + LATE_SECONDS
        calls = {
            asyncio.create_task(child.call(self.op, **arguments(place))): place
            for place, child in enumerate(self.children)
        }
        pending = set(calls)
        ending = asyncio.create_task(self.abort.wait())
        try:
            while pending and time.monotonic() < self.end:
                await self._wait(calls, pending, ending)
        finally:
            ending.cancel()
            for task in pending:
                place = calls[task]
                self.entries[place] = self._killed(place)
                task.cancel()
                self.children[place].kill()
        return self.entries

    async def _wait(self, calls: dict[Call, int], pending: set[Call], ending: asyncio.Task[Any]) -> None:
        """Wait until something has happened, at most LOOK_SECONDS; ended calls are no longer pending."""
        watched = pending if self.abort.is_set() else pending | {ending}
        began = time.monotonic()
        timeout = min(LOOK_SECONDS, self.end - began)
        done, _ = await asyncio.wait(watched, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        woken = time.monotonic()
        if woken - began - timeout > LOOK_SECONDS and not self.troubled:
            # The ranks' answers of that time have not been read yet.
            self.overslept += woken - began - timeout
            self.end = max(self.end, min(woken, self.started + self.seconds + OVERSLEPT_SECONDS) + GRACE_SECONDS)
        if self.abort.is_set():  # perhaps while something else was awaited
            self._give_grace()
        if self._stopped_for([calls[task] for task in pending]) > STOPPED_SECONDS:
            await self._report_trouble()
            self._give_grace()
            self.stopped_since.clear()
        if self._silent([calls[task] for task in pending]):
            await self._report_trouble()
            self._give_grace()
        for task in done & pending:
            pending.discard(task)
            entry = self.entries[calls[task]] = self._ended(task, calls[task])
            if entry.status != "ok":
                await self._report_trouble()

    def _give_grace(self) -> None:
        self.end = min(self.end, time.monotonic() + GRACE_SECONDS)

    async def _report_trouble(self) -> None:
        if not self.troubled:
            self.troubled = True
            await self.trouble()

    def _ended(self, task: Call, place: int) -> RankStage:
        seconds, error = time.monotonic() - self.started, task.exception()
        if error is not None:
            detail = {"died": True, **self._last_step(place)}
            return RankStage(self.op, "error", round(seconds, 3), str(error), detail)
        answer = task.result()
        detail = {name: value for name, value in answer.items() if name not in ("ok", "error", "seconds")}
        spent = round(float(answer.get("seconds", seconds)), 4)
        if answer["ok"]:
            return RankStage(self.op, "ok", spent, None, detail)
        detail.update(self._starved(place))
        return RankStage(self.op, "failed", spent, shortened(str(answer.get("error")), MAX_ERROR), detail)

    def _killed(self, place: int) -> RankStage:
        child = self.children[place]
        seconds = time.monotonic() - self.started
        detail: dict[str, Any] = {"killed": True, **self._last_step(place)}
        if self.op == "gloo" and child.pid is not None:
            sockets = listening(child.pid)
            if sockets:
                detail.update(address=sockets[0][0], port=sockets[0][1])
        state = process_state(child.pid) if child.pid is not None else None
        if state is not None:
            detail["state"] = state
        because = "another rank failed" if self.abort.is_set() else "it did not return"
        if place in self.silent:
            because = f"it did not return: no answer from remote={self.silent[place]}"
        elif state in STOPPED:
            because = "the process is stopped"
        elif starved := self._starved(place):
            detail.update(starved)
            because = f"it was kept waiting for a processor for {starved['starved']:.1f} s of them"
        elif self.overslept:
            detail["starved"] = round(self.overslept, 1)
            because = f"the doctor did not run itself for {self.overslept:.1f} s of them"
        return RankStage(self.op, "failed", round(seconds, 3), f"ended after {seconds:.1f} s: {because}", detail)

    def _last_step(self, place: int) -> dict[str, Any]:
        """Return the group that the rank was creating or using, if the call is about groups."""
        return last_step(self.children[place].output()) if self.op in GROUPS else {}

    def _silent(self, places: Sequence[int]) -> bool:
        """Return whether a rank at one of these places has waited too long for a connection of gloo's. Each is
        noted."""
        if (
            self.op in GLOO
            and not self.silent
            and (self._limit_of_retransmissions(None) or self._limit_of_retransmissions(self.deaf))
        ):
            for place in places:
                pid = self.children[place].pid
                asked = unanswered(pid) if pid is not None else []
                for at, port, times in asked:
                    if at not in self.limited and times >= (self._limit_of_retransmissions(at) or math.inf):
                        self.silent[place] = f"[{at}]:{port}"
        return bool(self.silent)

    def _limit_of_retransmissions(self, at: str | None) -> int | None:
        """Return the number of retransmissions after which this address counts as silent, None while an answer may
        still arrive."""
        seconds, here = time.monotonic() - self.started, at is not None and at == self.deaf
        bounds = (*SILENT, SILENT_HERE) if here else SILENT
        return min((times for after, times in bounds if seconds >= after), default=None)

    def _starved(self, place: int) -> dict[str, float]:
        """Return ``starved``: the seconds for which the rank had no processor, if it had all the time and that was most
        of it; else nothing."""
        pid, seconds = self.children[place].pid, time.monotonic() - self.started
        if pid is None or seconds < self.seconds:
            return {}
        # The cgroup's throttled time is that of all its processes: of these, the ranks are what would run.
        kept = max(waited(pid) - self.waited[place], (throttled_seconds() - self.throttled) / len(self.children))
        return {"starved": round(min(kept, seconds), 1)} if kept >= STARVED * seconds else {}

    def _stopped_for(self, places: Sequence[int]) -> float:
        """Return the seconds for which the longest-stopped of these ranks has been stopped."""
        now = time.monotonic()
        for place in places:
            pid = self.children[place].pid
            if pid is not None and process_state(pid) in STOPPED:
                self.stopped_since.setdefault(place, now)
            else:
                self.stopped_since.pop(place, None)
        return max((now - start for start in self.stopped_since.values()), default=0.0)
