"""Real jobs of torch on loopback: ranks, and torchrun's agents with theirs, forked from one process that has torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

_SOURCE = """
import json, os, socket, sys, time
from datetime import timedelta
import torch
import torch.distributed as dist
import torch.distributed.debug
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

def work(gate, late):
    rank = int(os.environ["RANK"])
    while rank in late and not os.path.exists(gate):
        time.sleep(0.05)
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    total = torch.full((1,), float(rank))
    dist.all_reduce(total)
    dist.new_group(list(range(dist.get_world_size())))
    if "ABSENT" in os.environ:
        # What torch.distributed.debug.start_debug_server does, but for its page, which needs more than torch.
        server = dist.debug._WorkerServer("::", 0)
        dist.debug.tcpstore_client().set(f"rank{rank}", f"http://{socket.gethostname()}:{server.port}")
        while rank == int(os.environ["ABSENT"]) and not os.path.exists(gate):
            time.sleep(0.05)
        dist.all_reduce(total)
    while not os.path.exists(gate + ".end"):
        time.sleep(0.05)
    dist.barrier()  # none leaves while another still connects to it
    dist.destroy_process_group()
    return total.item()

def tell(order, *what):
    os.write(1, (json.dumps([order["gate"], *what]) + "\\n").encode())

def run(order):
    for name, value in order["env"].items():
        os.environ[name] = value
    gate, late = order["gate"], order["late"]
    if "agent" in order:
        config = LaunchConfig(**order["agent"], start_method="fork", monitor_interval=0.1)
        found = elastic_launch(config, work)(gate, late)
        tell(order, "agent", sorted(found.items()))
    else:
        tell(order, "rank", int(os.environ["RANK"]), work(gate, late))

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        os.close(0)
        order = json.loads(line)
        try:
            run(order)
        except BaseException as err:
            tell(order, "failed", str(err)[:300])
        os._exit(0)
"""


class Jobs:
    """The process that starts them."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _SOURCE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def order(self, **what: Any) -> None:
        """Start what is told."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def result(self, gate: str) -> list[Any]:
        """Return what the next of those of ``gate`` came to."""
        assert self.process.stdout is not None
        while True:
            told: list[Any] = json.loads(self.process.stdout.readline())
            if told[0] == gate:
                return told[1:]

    def close(self) -> None:
        """End all of them."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


class Job:
    """One job, of which no rank ends before its results are asked for."""

    def __init__(self, jobs: Jobs, folder: Path, late: tuple[int, ...] = ()) -> None:
        """The ranks that are ``late`` do not call init_process_group before :meth:`open`."""
        self.jobs, self.gate, self.late = jobs, str(folder / "gate"), late

    def rank(self, port: int, rank: int, world: int, **env: str) -> None:
        """Start one rank of a job without a launcher."""
        there = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(world)}
        self.jobs.order(gate=self.gate, late=self.late, env={**there, **env})

    def agent(self, backend: str, port: int, node: int, **env: str) -> None:
        """Start torchrun's agent of one node of two, with two ranks."""
        settings = {
            "min_nodes": 2,
            "max_nodes": 2,
            "nproc_per_node": 2,
            "max_restarts": 0,
            "run_id": "job7",
            "rdzv_backend": backend,
            "rdzv_endpoint": f"127.0.0.1:{port}",
            "rdzv_configs": {"rank": node, "timeout": 120},
            "local_addr": f"127.0.0.{1 + node}",
        }
        self.jobs.order(gate=self.gate, late=self.late, env=env, agent=settings)

    def open(self) -> None:
        """Let the late ones go on."""
        Path(self.gate).touch()

    def results(self, number: int) -> list[Any]:
        """Return what ``number`` of those that were started came to; they may end now."""
        self.open()
        Path(self.gate + ".end").touch()
        return sorted(self.jobs.result(self.gate) for _ in range(number))
