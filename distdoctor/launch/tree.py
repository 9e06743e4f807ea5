"""Of hundreds of hosts this place logs in to some, and each of these to its share of the others: a tree over ssh.

A relay is one more ``distdoctor remote`` on one of the hosts (``distdoctor.launch.relay``), whose only task is to start
ssh to its share and to pass on what both ends say. To the run each of those is a host with a line of its own, as any:
what is told of a host is what it said itself, or what was seen when it was called from here. For whatever a relay does
not reach at once, for want of a key, a name, an ssh or time, is called from here; and where one that had begun its part
is lost with its relay, all is run again without (``FanOut.again``). So no finding rests on a relay.

A host is reached over another one only where that is the same: ssh's configuration of this place is asked for its
address, user and port, which the relay is told; where a jump host or a command leads to it, it is called from here.

srun and kubectl have no tree: all their ways lead through SLURM's controller or the API server, whoever asks.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ClusterShell.Event import EventHandler
from ClusterShell.Task import task_self

from distdoctor.launch.line import Line
from distdoctor.launch.relay import RELAY_CONNECT
from distdoctor.launch.ways import CONNECT_SECONDS, SSH, unfolded
from distdoctor.launch.wire import RELAY, packed, unpacked
from distdoctor.launch.worker import Worker

RELAY_SECONDS = 8.0
"""By when a relay must be there."""


class Lines(Protocol):
    """Who runs the lines (``FanOut``): told of what comes over a branch as of any worker."""

    def begin(self, line: Line, worker: Any) -> None:
        """This is the way to its host."""

    def call_from_here(self, lines: Iterable[Line]) -> None:
        """These are not reached over another host."""

    def ev_read(self, worker: Any, node: str, sname: str, msg: bytes) -> None:
        """A line came."""

    def ev_hup(self, worker: Any, node: str, rc: int) -> None:
        """Its command ended."""

    def ev_close(self, worker: Any, timedout: bool) -> None:
        """And nothing more comes."""


class Branch:
    """The way to one host over another, as a worker."""

    SNAME_STDERR = "stderr"

    def __init__(self, relay: Relay, number: int, line: Line) -> None:
        self.relay, self.number, self.line = relay, number, line

    def write(self, data: bytes) -> None:
        """To its stdin."""
        self.relay.tell({"to": self.number, "text": data.decode()})

    def abort(self) -> None:
        """End it; nothing more is heard of it."""
        self.relay.tell({"to": self.number, "end": True})
        self.relay.close(self, None)


class Relay(EventHandler):  # type: ignore[misc]
    """One host over which others are reached."""

    def __init__(self, line: Line, leaves: Mapping[int, Line], setup: str | None, lines: Lines) -> None:
        self._lines, self._setup, self._target = lines, setup, line.target
        self._waiting, self._branches = dict(leaves), dict[int, Branch]()
        self._hosts: dict[int, dict[str, str] | None] = {}
        """What ssh here makes of the names, once it has said so; None: such a one is only reached from here."""
        self._worker: Any = None
        self._hello, self._began = False, 0.0
        for leaf in leaves.values():
            leaf.over = line.target.host.name

    def start(self) -> None:
        """Log in to it."""
        threading.Thread(target=self._unfold, name="names", daemon=True).start()
        before = ("ssh", RELAY_CONNECT, *SSH[1:], "--", self._target.host.name)
        argv = replace(self._target, before=before, until="").command(self._setup)
        self._began, self._worker = time.monotonic(), Worker(self._target.host.name, self, stderr=True, argv=argv)
        task_self().schedule(self._worker)

    def _unfold(self) -> None:
        for number, leaf in [*self._waiting.items()]:
            self._hosts[number] = unfolded(leaf.target.host.name)

    def tick(self, now: float) -> None:
        """What is due."""
        if self._waiting and self._hello and self._hosts.keys() >= self._waiting.keys():
            self._ask()
        if self._waiting and now - self._began > RELAY_SECONDS:
            self.give_up()
        for branch in [*self._branches.values()]:
            if not branch.line.hello and now - branch.line.began > CONNECT_SECONDS:
                branch.abort()

    def _ask(self) -> None:
        """Have it log in to its share."""
        hosts = {number: host for number in self._waiting if (host := self._hosts[number]) is not None}
        asked = [(number, line) for number, line in self._waiting.items() if number in hosts]
        others = [line for number, line in self._waiting.items() if number not in hosts]
        self._waiting = {}
        # All hosts of a run are to run the same: what finds distdoctor there, and begins what is needed.
        there = {number: line.target.command(self._setup)[-1] for number, line in asked}
        self.tell({"way": "ssh", "task": RELAY, "hosts": hosts, "there": there})
        self.tell({"go": True})
        for number, line in asked:
            self._branches[number] = Branch(self, number, line)
            self._lines.begin(line, self._branches[number])
        self._lines.call_from_here(others)
        self._end_if_idle()

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send one message."""
        if self._worker is not None:
            self._worker.write(packed(message))

    def give_up(self) -> None:
        """Those that it was not asked for yet are called from here."""
        waiting, self._waiting = [*self._waiting.values()], {}
        self._lines.call_from_here(waiting)
        self._end_if_idle()

    def close(self, branch: Branch, status: int | None) -> None:
        """Nothing more comes over this branch."""
        if self._branches.pop(branch.number, None) is not None:
            if status is not None:
                self._lines.ev_hup(branch, "", status)
            self._lines.ev_close(branch, False)
            self._end_if_idle()

    def _end_if_idle(self) -> None:
        if not self._waiting and not self._branches and self._worker is not None:
            worker, self._worker = self._worker, None
            worker.abort()

    # -- what ClusterShell tells -------------------------------------------------------------------------------------

    def ev_read(self, worker: Any, _node: str, sname: str, msg: bytes) -> None:
        """A line of its own, or one of a host that it was asked for; what it says of any other is passed over."""
        message = unpacked(msg) if sname != worker.SNAME_STDERR else None
        if message is None:
            return
        number = message.get("of")
        branch = self._branches.get(number) if isinstance(number, int) else None
        if branch is None:
            self._hello = self._hello or "hello" in message
        elif "out" in message:
            self._lines.ev_read(branch, "", "stdout", str(message["out"]).encode())
        elif "err" in message:
            self._lines.ev_read(branch, "", branch.SNAME_STDERR, str(message["err"]).encode())
        elif "ended" in message:
            self.close(branch, message["ended"] if isinstance(message["ended"], int) else None)

    def ev_close(self, _worker: Any, _timedout: bool) -> None:
        """It is gone, and with it the ways over it."""
        self._worker = None
        self.give_up()
        for branch in [*self._branches.values()]:
            self.close(branch, None)


class Tree:
    """Which of ``lines`` are reached over which, in about as many groups as each has hosts; the first by itself: the
    others of a check meet there, it has enough to do."""

    def __init__(self, lines: Sequence[Line], setup: str | None, handler: Lines) -> None:
        self._relays = [
            Relay(lines[first], {number: lines[number] for number in leaves}, setup, handler)
            for first, leaves in shares(len(lines))
        ]

    def start(self) -> None:
        """Log in to the relays."""
        for relay in self._relays:
            relay.start()

    def tick(self, now: float) -> None:
        """What is due."""
        for relay in self._relays:
            relay.tick(now)

    def stop(self) -> None:
        """Nobody is to be reached any more."""
        for relay in self._relays:
            relay.give_up()


def shares(number: int) -> Iterator[tuple[int, range]]:
    """Of so many hosts each relay, and who is reached over it: neighbours in the list, as mostly in the room."""
    size = math.ceil(math.sqrt(max(1, number - 1)))
    for first in range(1, number, size):
        leaves = range(first + 1, min(first + size, number))
        if leaves:
            yield first, leaves
