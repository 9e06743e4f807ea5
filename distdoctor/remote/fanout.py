"""Fan-out of a run to many hosts at once, over ClusterShell: an order to each, and the messages of each.

A local command connects to each host (``distdoctor.remote.transports``). Its stdin and stdout are the connection to
``distdoctor remote`` there. All say hello first; then all get the command to go, and the list of missing hosts. A host
ends its run when its connection ends, or after SILENT_SECONDS without a message.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from ClusterShell.Event import EventHandler
from ClusterShell.Task import task_self

from distdoctor.model.host_calls import CallOutcome, HostCall
from distdoctor.model.text import clean
from distdoctor.remote.connection import BEAT_SECONDS, SILENT_SECONDS, HostConnection, Worker, inflated, unpacked
from distdoctor.remote.transports import CONNECT_SECONDS, HostTarget

STOP_SECONDS = 2.0
"""Seconds for the hosts to send what they know when the run is interrupted."""
TICK_SECONDS = 0.1
AT_ONCE = 100
"""Limit of the hosts that are called at one time: an ssh that logs in takes a processor for a while, and its time
runs."""
FEW_AT_ONCE = 8
"""Limit after one was refused for that: below the 10 from which sshd refuses (MaxStartups), as that of a jump host for
all."""
AGAIN_SECONDS = 1.0
ROLL_SECONDS = 0.5
"""Interval of reporting the connected hosts."""
IN_WORDS: Mapping[CallOutcome, str] = {
    "absent": "there is no distdoctor",
    "failed": "it ended without telling anything",
    "lost": "the connection to it was lost",
    "silent": "nothing came from it",
    "unreached": "it could not be reached",
}
"""Texts for a host that sent no reason itself."""


class Watcher(Protocol):
    """Receiver of the hosts' messages, in the order in which they arrive."""

    def hello(self, present: Sequence[str], left: float) -> None:
        """Take the list of all connected hosts; ``left`` seconds until they begin."""

    def gone(self, host: str, why: str) -> None:
        """Take the end of a host that sent no facts and will send nothing more."""

    def event(self, host: str, event: Mapping[str, Any]) -> None:
        """Take a message on a host's run."""


class FanOut(EventHandler):  # type: ignore[misc]
    """One run on all ``targets``. ``orders``: one for each. ``stopping``: whether to interrupt, asked often.

    Times in seconds: ``hello``: limit for a host to connect, ``limit``: for all to end. ``meanwhile``: runs here as
    soon as all were called, in a thread: the connections are served however long it takes. ``on_results``: gets the
    connections and their results once nothing more is to arrive that matters, while the hosts still end their part.
    """

    def __init__(
        self,
        targets: Sequence[HostTarget],
        orders: Sequence[Mapping[str, Any]],
        watcher: Watcher,
        stopping: Callable[[], bool],
        *,
        setup: str | None,
        hello: float,
        limit: float,
        meanwhile: Callable[[], object] | None = None,
        on_results: Callable[[Sequence[HostConnection], Sequence[HostCall]], object] | None = None,
    ) -> None:
        self.lines = [HostConnection(target, order) for target, order in zip(targets, orders, strict=True)]
        self._watcher, self._stopping, self._setup = watcher, stopping, setup
        self._hello, self._limit = hello, limit
        self._meanwhile = threading.Thread(target=meanwhile, name="meanwhile", daemon=True) if meanwhile else None
        self._report, self._to_call = on_results, deque(self.lines)
        self._at_once, self._reported_here, self._rolled = AT_ONCE, 0, 0.0
        self._by_worker: dict[Any, HostConnection] = {}
        self._began = self._beat = self._called = self._ticked = time.monotonic()
        self._going = False
        self._stopped: float | None = None
        self.twice: tuple[str, str] | None = None
        """Two names of one machine: for them the run was interrupted, and nothing is reported."""

    def run(self) -> list[HostCall]:
        """Run to the end of all. The facts are in ``lines``."""
        task = task_self()
        task.set_info("fanout", len(self.lines))
        task.set_default("stdout_msgtree", False)
        task.set_default("stderr_msgtree", False)
        self._began = self._beat = self._ticked = time.monotonic()
        self._call()
        task.timer(TICK_SECONDS, self, interval=TICK_SECONDS, autoclose=True)
        task.resume()
        self._report_if_done()
        return self._calls()

    def _calls(self) -> list[HostCall]:
        return [line.call(rank) for rank, line in enumerate(self.lines)]

    def _call(self) -> None:
        """Call the next hosts: of many only so many are logging in at a time."""
        if self._stopped is not None:
            self._end(self._to_call, "lost")
            self._to_call.clear()
        logging_in = sum(one.worker is not None and not one.hello for one in self._open())
        while self._to_call and logging_in < self._at_once and self._to_call[0].due <= time.monotonic():
            line = self._to_call.popleft()
            logging_in, line.calls = logging_in + 1, line.calls + 1
            worker = Worker(line.target.host.name, self, stderr=True, argv=line.target.command(self._setup))
            task_self().schedule(worker)
            line.began = line.heard = self._called = time.monotonic()
            line.worker, self._by_worker[worker] = worker, line
            line.send(line.order)

    # Events of ClusterShell

    def ev_read(self, worker: Any, _node: str, sname: str, msg: bytes) -> None:
        """Take one line of its stdout or its stderr."""
        line = self._by_worker[worker]
        line.heard = time.monotonic()
        if sname == worker.SNAME_STDERR:
            if text := clean(msg.decode(errors="replace")).strip():
                line.said.append(text[:500])
        elif message := unpacked(msg):
            self._take(line, message)
        elif not line.hello and (text := clean(msg.decode(errors="replace")).strip()):
            line.printed.append(text[:500])

    def ev_hup(self, worker: Any, _node: str, rc: int) -> None:
        """Note the end of its local command."""
        self._by_worker[worker].status = rc

    def ev_close(self, worker: Any, _timedout: bool) -> None:
        """Note the end of its output."""
        line = self._by_worker[worker]
        if line.refused_for_now() and self._stopped is None:
            line.hang_up()
            line.due, self._at_once = time.monotonic() + AGAIN_SECONDS, FEW_AT_ONCE
            self._to_call.append(line)
            task_self().timer(AGAIN_SECONDS + TICK_SECONDS, self)  # it may have been the last that was at work
            return
        line.ended = time.monotonic()
        if not line.answered and self._stopped is None:
            call = line.call(0)
            self._watcher.gone(line.target.host.name, next(iter(call.said[-1:]), IN_WORDS.get(call.outcome, "")))
        self._call()
        self._go_if_ready()
        self._report_if_done()

    def ev_timer(self, _timer: Any) -> None:
        """Do what is due."""
        if self._meanwhile is not None and self._meanwhile.ident is None:
            self._meanwhile.start()
        now = time.monotonic()
        late, self._ticked = max(0.0, now - self._ticked - TICK_SECONDS), now
        for line in self._open():  # while this machine got no processor, or was stopped, it heard nobody
            line.heard += late
        if self._stopped is None and (self._stopping() or now - self._began > self._limit):
            self._stop(now)
        if self._stopped is not None and now - self._stopped > STOP_SECONDS:
            self._end(self._open(), "lost")
            return
        if now - self._beat >= BEAT_SECONDS:
            self._beat = now
            for line in self._open():
                line.send({"beat": True})
        self._call()
        self._call_the_roll()
        self._go_if_ready()
        called = [one for one in self._open() if one.worker is not None]
        self._end([one for one in called if not one.hello and now - one.began > self._hello], "silent")
        self._end([one for one in self._open() if one.hello and now - one.heard > SILENT_SECONDS], "lost")

    # Reactions

    def _take(self, line: HostConnection, message: Mapping[str, Any]) -> None:
        if "hello" in message:
            line.hello, line.distdoctor = True, str(message.get("distdoctor", ""))[:50]
            line.machine = str(message.get("machine", ""))[:500]
            self._refuse_duplicate(line)
            self._call_the_roll()
            self._call()
            if self._going:
                line.send(self._go())
            self._go_if_ready()
        elif "facts" in message:
            line.facts = inflated(message["facts"])
        elif "nothing" in message:
            line.nothing = clean(str(message["nothing"]))[:500] or "nothing"
        elif "sent" in message:
            line.sent = True
        else:
            self._watcher.event(line.target.host.name, message)
        self._report_if_done()

    def _refuse_duplicate(self, line: HostConnection) -> None:
        """Stop a run with two names of one machine: its nodes would share its ports, and count as two."""
        same = [one for one in self.lines if line.machine and one.machine == line.machine]
        if len(same) > 1 and self._stopped is None and not line.target.shares:
            self.twice = same[0].target.host.name, same[1].target.host.name
            self._stop(time.monotonic())

    def _stop(self, now: float) -> None:
        """Interrupt the run: each host sends what it knows."""
        self._stopped = now
        for line in self._open():
            line.stopped = True
            line.send({"stop": True})
        self._call()

    def _call_the_roll(self) -> None:
        """Report the connected hosts: at once if all are, and of hundreds not each."""
        here, now = [line.target.host.name for line in self.lines if line.hello], time.monotonic()
        if len(here) > self._reported_here and (len(here) == len(self.lines) or now - self._rolled >= ROLL_SECONDS):
            self._reported_here, self._rolled = len(here), now
            self._watcher.hello(here, self._called + CONNECT_SECONDS - now)

    def _report_if_done(self) -> None:
        done = all(line.answered or line.ended is not None for line in self.lines)
        if self._report is not None and not self.twice and done:
            report, self._report = self._report, None
            if self._meanwhile is not None and self._meanwhile.ident is not None:
                self._meanwhile.join()
            report(self.lines, self._calls())

    def _go_if_ready(self) -> None:
        """Let all begin once each has said hello or will not, or the time for that is over."""
        open_lines = self._open()
        late = not self._to_call and time.monotonic() - self._called > CONNECT_SECONDS
        ready = open_lines and (late or all(line.hello for line in open_lines))
        if ready and not self._going and self._stopped is None:
            self._going = True
            for line in open_lines:
                if line.hello:
                    line.send(self._go())

    def _go(self) -> dict[str, Any]:
        gone = [line.target.host.name for line in self.lines if line.ended is not None and not line.answered]
        return {"go": True, "missing": gone}

    def _open(self) -> list[HostConnection]:
        return [line for line in self.lines if line.ended is None]

    def _end(self, lines: Iterable[HostConnection], outcome: CallOutcome) -> None:
        for line in lines:
            line.outcome = outcome
            if line.worker is not None:
                line.worker.abort()
            else:
                line.ended = time.monotonic()
