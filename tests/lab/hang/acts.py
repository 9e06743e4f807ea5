"""What is done to a job that runs, between its rows."""

from __future__ import annotations

import signal
import time

from tests.lab.hang.row import Act
from tests.lab.hang.running import Running
from tests.lab.harness.cgroups import FROZEN, freezer

LATE = 12.0
"""Seconds after which whoever does not come is missing, and not just late."""

BEGINS_WITHIN = 180.0


def start(*hosts: int) -> Act:
    """Return what belongs to these hosts is started."""
    return lambda running: running.start(*hosts)


def begin(host: int) -> Act:
    """The ranks of this host are started, and have come to their first step: on a busy machine torch's import takes
    longer than the pause before a look."""

    def act(running: Running) -> None:
        before, deadline = running.steps_begun(), time.monotonic() + BEGINS_WITHIN
        running.start(host)
        while running.steps_begun() < before + running.job.nproc:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the ranks of host {host} do not begin: {running.output()}")
            time.sleep(0.1)

    return act


def stop(rank: int) -> Act:
    """The rank is stopped."""
    return lambda running: running.signal(rank, signal.SIGSTOP)


def go_on(rank: int) -> Act:
    """The rank that was stopped goes on."""
    return lambda running: running.go_on(rank)


def freeze(rank: int) -> Act:
    """The rank is put into a control group, which is frozen, as a container that is paused."""

    def act(running: Running) -> None:
        group = freezer(running.cluster[running.host_of(rank)])
        (group / "cgroup.procs").write_text(str(running.pid(rank)))
        (group / FROZEN).write_text("1")
        running.frozen.append(group / FROZEN)

    return act


def thaw() -> Act:
    """Return what was frozen goes on."""
    return lambda running: [file.write_text("0") for file in running.frozen].clear()


def kill(rank: int) -> Act:
    """The rank is killed."""
    return lambda running: running.kill(rank)


def link(host: int, state: str) -> Act:
    """The cable of a host is pulled out of the switch, or put back."""
    return lambda running: [running.cluster.in_switch(f"ip link set lan-p{host + 1} {state}")].clear()


def back(host: int, late: int) -> Act:
    """The cable of a host is back, and another host is started."""

    def act(running: Running) -> None:
        link(host, "up")(running)
        running.start(late)

    return act


def unfiltered(*hosts: int) -> Act:
    """The packet filter of these hosts is emptied."""
    return lambda running: [running.cluster[host].inside("nft flush ruleset") for host in hosts].clear()


def late(seconds: float = LATE) -> Act:
    """It is left alone for so long."""
    return lambda running: time.sleep(seconds)
