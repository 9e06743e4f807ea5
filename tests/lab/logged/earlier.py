"""Runs a job on loopback with another Python and another torch, such as one of another architecture under qemu."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import threading
import time
from pathlib import Path

from tests.helpers.servers import unused_port
from tests.lab.harness.host import clean_environment
from tests.lab.logged.job import Job
from tests.lab.logged.recorder import Recording

LIMIT = 400.0
"""Seconds after which what still runs is ended: an emulated import of torch takes a minute."""


def run(job: Job, python: str, path: str) -> Recording:
    """The logs of ``job``, run with the program ``python`` and ``path`` as PYTHONPATH; each rank by hand is a host."""
    recording, writing = Recording(job.torch), threading.Lock()
    port, script = str(unused_port()), [str(Path(__file__).parent / job.program), *shlex.split(job.script)]
    own = {"GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": path, "PYTHON_EXEC": python, "TMPDIR": "/tmp"}
    own |= {name: value for name, value in job.env.items() if value is not None}
    running = []
    for index in range(job.hosts):
        command = [python, *script]
        env = {"RANK": str(index), "WORLD_SIZE": str(job.hosts), "LOCAL_RANK": "0"}
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        if job.style == "torchrun":
            flags = ["--nproc-per-node", str(job.nproc), "--master-addr", "127.0.0.1", "--master-port", port]
            command, env = [python, "-m", "torch.distributed.run", *flags, *script], {}
        process = subprocess.Popen(
            command,
            env={**clean_environment(), **own, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd="/",
            start_new_session=True,
        )
        reader = threading.Thread(target=_read, args=(process, index, recording, writing), daemon=True)
        reader.start()
        running.append((process, reader))
    end = time.monotonic() + LIMIT
    for process, reader in running:
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.2)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
        reader.join(timeout=10)
    return recording


def _read(process: subprocess.Popen[str], host: int, recording: Recording, writing: threading.Lock) -> None:
    assert process.stdout is not None
    name = Path("/proc/sys/kernel/hostname").read_text().strip()
    for line in process.stdout:
        with writing:
            recording.lines.append((host, re.sub(rf"\b{re.escape(name)}\b", f"host{host}", line)))
