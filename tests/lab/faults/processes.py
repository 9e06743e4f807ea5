"""Faults of processes: stopped, killed or starved while the doctor runs."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.helpers.sandbox import forbid
from tests.lab.harness.host import PRIVATE, Host
from tests.lab.harness.launch import Fault, Launch

APPEARS_WITHIN = 60.0
"""Seconds after which a watcher gives up."""
BUSY_WHEN_TOLD = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.sched_setaffinity(0, {int(sys.argv[1])})
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        os.setsid()
        break
else:
    print("ready", flush=True)
signal.sigwait({signal.SIGUSR1})
while True: pass
"""
"""A session each: the kernel shares a core among sessions first (sched(7), autogroup)."""


def busy(launch: Launch) -> None:
    """Every core of the machine has as much to do as it can."""
    for _ in range(os.cpu_count() or 1):
        launch.cluster[0].python("print('busy')\nwhile True: pass", wait_for="busy")


def sandboxed(call: int, on: int, argument: int = -1) -> Fault:
    """What is started on host ``on`` may not make this system call (its number on x86-64), or not with this first
    argument, as in a container or unit."""
    program = f"{PRIVATE}/lab/sandbox.py"

    def inject(launch: Launch) -> None:
        code = f"{forbid(call, argument)}\nos.execv(sys.argv[1], sys.argv[1:])\n"
        launch.cluster[on].anchor.path(program).write_text(code)
        for start in launch.on(on):
            start.before += (f'set -- {sys.executable} -S -E {program} "$@"',)

    return inject


def plain_shell(launch: Launch) -> None:
    """Start the job with nothing before it: no sandbox, no umask."""
    for start in launch.starts:
        start.before = ()


def starved(on: int, *ranks: int, others: int = 15) -> Fault:
    """In the first run, these ranks on host ``on`` may only use one core; ``others`` keep it busy from then on.

    Where much else runs, up to four times as many: the other ranks are kept waiting, too, and this is to be worse.
    """
    core = max(os.sched_getaffinity(0))

    def act(host: Host) -> bool:
        wanted = {f"distdoctor:r{rank}" for rank in ranks}
        found = [pid for pid in host.anchor.pids() if _name(pid) in wanted]
        if len(found) < len(ranks):
            return False
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(pid, {core})
        _signal_load(host, signal.SIGUSR1)
        return True

    def inject(launch: Launch) -> None:
        # Asked here, not where the table is read: what else runs then may not yet be there.
        busier = os.getloadavg()[0] / (os.cpu_count() or 1)
        busy = round(others * min(4.0, max(1.0, busier)))
        launch.cluster[on].python(BUSY_WHEN_TOLD, str(core), str(busy), wait_for="ready")
        _watch(launch.cluster[on], act)

    return inject


def load_ended(launch: Launch) -> None:
    """What else ran on the hosts has ended."""
    for host in launch.cluster:
        _signal_load(host, signal.SIGKILL)


def _signal_load(host: Host, sig: signal.Signals) -> None:
    for pid, command in host.processes().items():
        if "signal.sigwait" in command:
            _signal(pid, sig)


def signalled_rank(on: int, rank: int, sig: signal.Signals) -> Fault:
    """The process of a rank on host ``on`` gets ``sig`` as soon as it is there, in the first run only."""

    def act(host: Host) -> bool:
        pids = [pid for pid in host.anchor.pids() if _name(pid) == f"distdoctor:r{rank}"]
        return [_signal(pid, sig) for pid in pids] != []

    return lambda launch: _watch(launch.cluster[on], act)


def killed_doctor(on: int, sig: signal.Signals = signal.SIGKILL) -> Fault:
    """The whole doctor on host ``on`` gets this signal as soon as its ranks are there, in the first run only."""

    def act(host: Host) -> bool:
        if not any(_name(pid).startswith("distdoctor:r") for pid in host.anchor.pids()):
            return False
        mains = [pid for pid, command in host.processes().items() if "-m distdoctor check" in command]
        return [_signal(pid, sig) for pid in mains if _parent(pid) not in mains] != []

    return lambda launch: _watch(launch.cluster[on], act)


def stopped_doctor(on: int, seconds: float, after: float, whole: bool = False) -> Fault:
    """The doctor itself on host ``on`` is stopped for so long, some seconds after its ranks are there; in the first
    run only. ``whole``: with all its processes, the store's and the ranks', as Ctrl-Z does it."""

    def act(host: Host) -> bool:
        if not any(_name(pid).startswith("distdoctor:r") for pid in host.anchor.pids()):
            return False
        time.sleep(after)
        processes = host.processes()
        mains = [pid for pid, command in processes.items() if "-m distdoctor check" in command]
        below = [pid for pid in processes if whole and _name(pid).startswith("distdoctor:")]
        stopped = [
            _signal(pid, signal.SIGSTOP) for pid in (*mains, *below) if pid in below or _parent(pid) not in mains
        ]
        time.sleep(seconds)
        # nsenter(1), which waits for it, stops with its child and is the one to let it go on.
        return [_signal(pid, signal.SIGCONT) for child in stopped for pid in (_parent(child), child) if pid] != []

    return lambda launch: _watch(launch.cluster[on], act)


def _watch(host: Host, act: Callable[[Host], bool]) -> None:
    def watch() -> None:
        deadline = time.monotonic() + APPEARS_WITHIN
        while time.monotonic() < deadline and Path(f"/proc/{host.anchor.pid}").exists():
            if act(host):
                return
            time.sleep(0.01)

    threading.Thread(target=watch, daemon=True).start()


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _signal(pid: int, sig: signal.Signals) -> int:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sig)
    return pid
