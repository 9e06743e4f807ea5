"""Runs a job in the lab and keeps what its launchers and ranks wrote, in the order in which it came."""

from __future__ import annotations

import gzip
import json
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.harness.cluster import Cluster
from tests.lab.harness.host import ROOT, SHARED, Process
from tests.lab.harness.launch import Launch, Start
from tests.lab.harness.recording import RECORDED, recorded
from tests.lab.logged import memory
from tests.lab.logged.job import Job

LOGS = RECORDED / "logs"
"""Where the recorded logs lie."""
PLACES = {str(ROOT): "/opt/distdoctor", sys.prefix: "/opt/venv", sys.base_prefix: "/opt/python"}
PLACES |= {str(Path(place).resolve()): other for place, other in PLACES.items()}
TIMEOUT = 6
"""Seconds of the time limits that the launchers are given."""


@dataclass
class Recording:
    """What a job wrote."""

    torch: str = ""
    lines: list[tuple[int, str]] = field(default_factory=list)
    """The lines of all consoles in the order in which they came, each with the number of its host."""
    trees: dict[str, str] = field(default_factory=dict)
    """The files below ``--log-dir``, by host and path."""
    kernel: str = ""
    """What the kernel wrote of a cgroup without memory."""

    def console(self, host: int) -> str:
        """The console of one host."""
        return "".join(line for index, line in self.lines if index == host)


def run(job: Job) -> Recording:
    """The logs of ``job``, run now. Raises LabUnavailable."""
    if job.cgroup:
        before = memory.kernel_log()
        with memory.limited():
            recording = _run(job)
        recording.kernel = memory.killings(before, memory.kernel_log())
        return recording
    return _run(job)


def _run(job: Job) -> Recording:
    recording = Recording(_torch_version())
    with Cluster(job.hosts) as cluster:
        for name in ("train.py",):
            cluster.put(name, (Path(__file__).parent / name).read_text())
        launch = Launch(cluster, "c10d" if job.style == "c10d" else "torchrun", job.nproc)
        job.fault(launch)
        writing, done = threading.Lock(), threading.Event()
        running: list[tuple[Process, threading.Thread]] = []
        for start in sorted((one for one in launch.starts if one.started), key=lambda one: one.delay):
            process = _started(job, launch, start)
            index = start.host.index
            reader = threading.Thread(target=_read, args=(process, index, job, recording, writing, done), daemon=True)
            reader.start()
            running.append((process, reader))
            if job.style == "spawn":
                break
        _wait(job, [process for process, _ in running], done)
        if job.then != "cut":
            for process, reader in running:
                process.kill()
                reader.join(timeout=10)
        with writing:
            recording.lines = list(recording.lines)
        recording.trees = _trees(cluster)
    return recording


def _started(job: Job, launch: Launch, start: Start) -> Process:
    command = _command(job, launch, start)
    if start.before:
        command = [shutil.which("bash") or "sh", "-c", "\n".join([*start.before, 'exec "$@"']), "sh", *command]
    env: dict[str, str | None] = {**start.env, **job.env}
    if job.style in ("env", "spawn"):
        own = {"RANK": str(start.node_rank), "WORLD_SIZE": str(len(launch.starts)), "LOCAL_RANK": "0"}
        own |= {"MASTER_ADDR": "localhost" if job.style == "spawn" else launch.cluster[0].name, "MASTER_PORT": "29500"}
        env = {**own, **env}
    return start.host.popen(command, env=env, uid=start.uid, stderr=subprocess.STDOUT)


def _command(job: Job, launch: Launch, start: Start) -> list[str]:
    script = [f"{SHARED}/{job.program}", *shlex.split(job.script)]
    if job.style in ("env", "spawn"):
        return [sys.executable, *script]
    flags = {name: value for name, value in start.flags.items() if value is not None}
    conf = "join_timeout=8,last_call_timeout=1,read_timeout=6,close_timeout=5" if job.style == "c10d" else "timeout=8"
    flags |= {"--rdzv-conf": conf, **job.flags}
    if job.tree:
        flags |= {"--log-dir": f"{SHARED}/logs/{start.host.name}", job.tree: "3"}
    parts = [part for pair in flags.items() for part in pair if part]
    module = "launch" if job.style == "launch" else "run"
    return [sys.executable, "-m", f"torch.distributed.{module}", *parts, *script]


def _read(
    process: Process, host: int, job: Job, recording: Recording, writing: threading.Lock, done: threading.Event
) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        with writing:
            if done.is_set() and job.then == "cut":
                return
            recording.lines.append((host, line))
            if job.when and job.when in line:
                done.set()


def _wait(job: Job, processes: list[Process], done: threading.Event) -> None:
    end, told = time.monotonic() + job.limit, False
    while time.monotonic() < end and any(process.poll() is None for process in processes):
        if done.wait(timeout=0.1) and not told:
            told = True
            if job.then == "cut":
                return
            if job.then:
                processes[job.signalled].send_signal(getattr(signal, f"SIG{job.then}"))
        if told:
            time.sleep(0.1)


def _trees(cluster: Cluster) -> dict[str, str]:
    logs = cluster.shared / "logs"
    files = sorted(path for path in logs.rglob("*") if path.is_file()) if logs.is_dir() else []
    found = {str(path.relative_to(logs)): path.read_text(errors="replace") for path in files}
    return {path: text for path, text in found.items() if text}


def _torch_version() -> str:
    from importlib.metadata import version

    return version("torch")


def save(job: Job, recording: Recording, places: Mapping[str, str] = PLACES) -> None:
    """Keep the logs of ``job``, without what is particular to this machine. Raises OSError."""
    kept = {
        "torch": recording.torch,
        "lines": [(host, _neutral(line, places)) for host, line in recording.lines],
        **({"kernel": _neutral(recording.kernel, places)} if recording.kernel else {}),
        "trees": {_neutral(path, places): _neutral(text, places) for path, text in recording.trees.items()},
    }
    text = json.dumps(kept, separators=(",", ":"))
    LOGS.mkdir(parents=True, exist_ok=True)
    recorded(LOGS, job.name).write_bytes(gzip.compress(text.encode(), mtime=0))


def read(job: Job) -> Recording:
    """The recorded logs of ``job``. Raises OSError where there are none."""
    kept = json.loads(gzip.decompress(recorded(LOGS, job.name).read_bytes()))
    return Recording(
        kept["torch"], [(host, line) for host, line in kept["lines"]], kept["trees"], kept.get("kernel", "")
    )


def _neutral(text: str, places: Mapping[str, str]) -> str:
    for place, other in sorted(places.items(), key=lambda pair: -len(pair[0])):
        if place not in ("/usr", "/usr/local"):
            text = text.replace(place, other).replace(place.lstrip("/"), other.lstrip("/"))
    text = text.replace(platform.release(), platform.release().partition("-")[0])
    return re.sub(r"0x[0-9a-f]{10,16}", "0x7f0000000000", text)  # addresses, which do not compress
