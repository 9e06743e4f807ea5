"""A job of the table while it runs: its ranks, how far each has come, and what is done to them."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.lab.hang.row import FORKING, Job
from tests.lab.harness.cluster import Cluster
from tests.lab.harness.host import ROOT, SHARED, Process
from tests.lab.harness.launch import C10D_PORT, PORT
from tests.lab.harness.namespaces import children

PROGRAM = str(ROOT / "tests/lab/hang/program.py")
PIPES = ("pipe", "answer", "grammar", "lock", "child", "loader")
"""The steps whose key is a pipe."""


class Running:
    """A job on a cluster."""

    def __init__(self, job: Job, cluster: Cluster) -> None:
        self.job, self.cluster = job, cluster
        self.folder = Path(tempfile.mkdtemp(prefix="job-", dir=cluster.shared))
        self.folder.chmod(0o777)
        self.inside = f"{SHARED}/{self.folder.name}"
        self.processes: list[Process] = []
        self.helpers: dict[str, Process] = {}
        self.frozen: list[Path] = []
        for step in job.steps:
            kind, _, key = step.partition(":")
            if key and kind.partition("@")[0] in PIPES:  # without one, an act of the same name
                os.mkfifo(self.folder / key)
        os.mkfifo(self.folder / "end")

    # -- starting ---------------------------------------------------------------------------------------------

    def start(self, *hosts: int) -> None:
        """Start what belongs to these hosts."""
        for host in hosts:
            launched = self._launches(host)
            for number, (command, env) in enumerate(launched):
                with open(self.folder / f"output.{host}.{number}", "w") as output:
                    process = self.cluster[host].popen(command, env=env, stdout=output, stderr=output)
                self.processes.append(process)

    def _launches(self, host: int) -> list[tuple[list[str], dict[str, str | None]]]:
        """The commands on one host, each with its variables."""
        job, master = self.job, self.cluster[0].name
        plain = [sys.executable, PROGRAM, self.inside]
        threads: dict[str, str | None] = {"OMP_NUM_THREADS": "1"}
        if job.launcher in FORKING:
            shape = f"{host * job.nproc},{job.nproc},{job.world}"
            return [([*plain, job.launcher, shape, *job.steps], threads)]
        if job.launcher == "spawn":
            meet = {"MASTER_ADDR": master, "MASTER_PORT": str(PORT)}
            return [([*plain, "spawn", str(job.world), *job.steps], threads | meet)]
        if job.launcher == "accelerate":
            flags = ["--multi_gpu", "--num_processes", str(job.world), "--num_machines", "1", "--mixed_precision", "no"]
            flags += ["--dynamo_backend", "no", "--main_process_port", str(PORT)]
            return [([sys.executable, "-m", "accelerate.commands.launch", *flags, *plain[1:], *job.steps], threads)]
        if job.launcher == "env":
            worlds, numbers = job.worlds or [job.world] * job.hosts, job.numbers or range(job.world)
            told = [
                threads
                | {
                    "RANK": str(numbers[host * job.nproc + local]),
                    "LOCAL_RANK": str(local),
                    "WORLD_SIZE": str(worlds[host]),
                }
                | {"MASTER_ADDR": master, "MASTER_PORT": str(PORT)}
                for local in range(job.nproc)
            ]
            return [([*plain, *job.steps], env) for env in told]
        flags = ["--nnodes", str(job.hosts), "--nproc-per-node", str(job.nproc)]
        if job.launcher == "c10d":
            flags += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{master}:{C10D_PORT}"]
            flags += ["--rdzv-id", job.ids[host] if job.ids else "lab"]
        else:
            number = (job.node_ranks or range(job.hosts))[host]
            flags += ["--node-rank", str(number), "--master-addr", master, "--master-port", str(PORT)]
        return [([sys.executable, "-m", "torch.distributed.run", *flags, *plain[1:], *job.steps], threads)]

    # -- where it is ------------------------------------------------------------------------------------------

    def marks(self) -> dict[int, tuple[int, int, str]]:
        """Of each rank that has begun: its process inside its host, the number of its step, and the step."""
        found = {}
        for path in self.folder.glob("rank*"):
            lines = path.read_text().splitlines()
            if lines:
                pid, _, rest = lines[-1].partition(" ")
                number, _, step = rest.partition(" ")
                far = (int(number), step) if number.isdecimal() else (len(self.job.rows), number)
                found[int(path.name.removeprefix("rank"))] = (int(pid), *far)
        return found

    def steps_begun(self) -> int:
        """Return the number of steps that processes have come to, two of one rank too."""
        return sum(len(path.read_text().splitlines()) for path in self.folder.glob("rank*"))

    def wait_for(self, step: int, ranks: set[int], seconds: float) -> None:
        """Return once these ranks have come to that step, and all that is there stands still. Raises RuntimeError."""
        deadline = time.monotonic() + seconds
        while True:
            marks = self.marks()
            if all(rank in marks and marks[rank][1] >= step for rank in ranks):
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"it does not come to step {step}: {marks}; {self.output()}")
            time.sleep(0.1)

    def wait_for_port(self, seconds: float) -> None:
        """Return once somebody listens on the port where the job meets. Raises RuntimeError."""
        port, deadline = C10D_PORT if self.job.launcher == "c10d" else PORT, time.monotonic() + seconds
        while self.cluster[0].bound_ports().get(port) != "LISTEN":
            if time.monotonic() > deadline:
                raise RuntimeError(f"nobody listens: {self.output()}")
            time.sleep(0.1)

    def host_of(self, rank: int) -> int:
        """The host of a rank."""
        return rank // self.job.nproc

    def pid(self, rank: int) -> int:
        """The process of a rank, by its number out here. Raises RuntimeError where it has ended."""
        if (pid := self._pid(rank)) is None:
            raise RuntimeError(f"rank {rank} is gone: {self.output()}")
        return pid

    def lives(self, rank: int) -> bool:
        """Return whether a rank has not ended."""
        return self._pid(rank) is not None

    def _pid(self, rank: int) -> int | None:
        inside = self.marks()[rank][0]
        for pid in self.cluster[self.host_of(rank)].anchor.pids():
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{pid}/status").read_text()
                if re.search(rf"^NSpid:.*\t{inside}$", text, re.MULTILINE):
                    return pid
        return None

    def busy(self, ranks: set[int], seconds: float = 0.5) -> dict[int, float]:
        """Return how much processor time each of these ranks uses, in seconds per second."""
        pids = {rank: pid for rank in ranks if (pid := self._pid(rank)) is not None}
        before, began = {rank: _cpu(pid) for rank, pid in pids.items()}, time.monotonic()
        time.sleep(seconds)
        return {rank: (_cpu(pid) - before[rank]) / (time.monotonic() - began) for rank, pid in pids.items()}

    def would_run(self, ranks: set[int]) -> set[int]:
        """Those of these ranks that run, or would if others left them a processor, themselves or in a child, each time
        they are looked at: who polls sleeps in between."""
        pids = {rank: pid for rank in ranks if (pid := self._pid(rank)) is not None}
        for _ in range(10):
            pids = {rank: pid for rank, pid in pids.items() if any(_state(one) == "R" for one in (pid, *children(pid)))}
            time.sleep(0.1 if pids else 0.0)
        return {*pids}

    def output(self) -> str:
        """The end of what each process has said."""
        parts = [f"{path.name}: {path.read_text()[-600:]}" for path in sorted(self.folder.glob("output*"))]
        return "\n".join(parts)

    # -- what is done to it -----------------------------------------------------------------------------------

    def signal(self, rank: int, number: signal.Signals) -> None:
        """Send a signal to a rank."""
        os.kill(self.pid(rank), number)

    def go_on(self, rank: int) -> None:
        """Let a rank go on that was stopped, and nsenter(1), which waits for it and stops with it."""
        pid = self.pid(rank)
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        for one in (parent, pid):
            os.kill(one, signal.SIGCONT)

    def kill(self, rank: int) -> None:
        """Kill a rank, and wait until it is gone."""
        pid = self.pid(rank)
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}/status").exists() and "zombie" not in Path(f"/proc/{pid}/status").read_text():
            time.sleep(0.05)

    def release(self, step: str) -> None:
        """Give the step its key."""
        what, _, key = step.partition(":")
        kind, _, ranks = what.partition("@")
        if kind == "sleep":
            for rank in ranks.split(","):
                self.signal(int(rank), signal.SIGUSR1)
        elif kind == "flock":
            self.helpers[key].kill()
        elif key and kind in PIPES:
            for _ in ranks.split(","):
                self._write(self.folder / key)
        elif key and not key.startswith("tcp"):
            (self.folder / key).touch()

    def _write(self, pipe: Path) -> None:
        """Write to a pipe as soon as somebody reads it. Raises RuntimeError."""
        deadline = time.monotonic() + 120
        while True:
            try:
                file = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as err:
                if err.errno != errno.ENXIO or time.monotonic() > deadline:
                    raise RuntimeError(f"nobody reads {pipe.name}: {err}") from None
                time.sleep(0.1)
            else:
                os.write(file, b"go\n")
                os.close(file)
                return

    def prepare(self, step: str) -> None:
        """What must be there before the step: who holds the lock on a file."""
        what, _, key = step.partition(":")
        if what.startswith("flock"):
            (self.folder / key).touch()
            host = self.cluster[self.host_of(int(what.partition("@")[2]))]
            code = (
                "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print('held'); time.sleep(1e5)"
            )
            self.helpers[key] = host.python(code, f"{self.inside}/{key}", wait_for="held")

    def ends_well(self, seconds: float) -> list[str]:
        """Return how it does not end well, in words: every process with status 0, every rank at the end of its plan."""
        deadline = time.monotonic() + seconds
        while any(process.poll() is None for process in self.processes) and time.monotonic() < deadline:
            time.sleep(0.1)
        wrong = [f"status {p.poll()}" for p in self.processes if p.poll() not in (0, -signal.SIGKILL)]
        wrong += [f"rank {rank} is at {step}" for rank, (_, _, step) in self.marks().items() if step != "done"]
        return [*wrong, self.output()] if wrong else []


def _state(pid: int) -> str:
    """The state of a process, as of /proc/PID/stat; empty where it is gone."""
    try:
        return (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() or [""])[0]
    except OSError:
        return ""


def _cpu(pid: int) -> float:
    """Processor time of a process and of its children, in seconds."""
    total = 0.0
    for one in (pid, *children(pid)):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return total
