"""Jobs of a real Ray Train, on loopback; skipped where Ray is not installed."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.report_schema import report_in

if importlib.util.find_spec("ray") is None:
    pytest.skip("Ray is not installed here: pip install 'ray[train]'", allow_module_level=True)

WITHIN = 150.0
"""Seconds for Ray to start, place its workers and let them come to their lines."""
PROGRAM = """
import os, sys, time
import ray
from ray.train import ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer

def loop():
    import torch
    import torch.distributed as dist
    import ray.train
    values = torch.ones(2)
    dist.all_reduce(values)
    while ray.train.get_context().get_world_rank() == 1 and not os.path.exists("/no/such/file"):
        time.sleep(0.2)  # POLLS
    dist.all_reduce(values)  # WAITS

workers, gpu = int(sys.argv[1]), sys.argv[2] == "gpu"
ray.init(_node_ip_address="127.0.0.1", include_dashboard=False, num_cpus=3, object_store_memory=100 << 20)
scaling = ScalingConfig(num_workers=workers, use_gpu=gpu)
TorchTrainer(loop, scaling_config=scaling, torch_config=TorchConfig(backend="gloo")).fit()  # FITS
"""
LINES = {word: number for number, line in enumerate(PROGRAM.splitlines(), 1) for word in line.split("# ")[1:]}


@pytest.fixture
def driver(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[int]:
    """A driver that runs the program with these words; what Ray started ends with it."""
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    env = {
        **os.environ,
        "HOME": str(tmp_path),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_TRAIN_V2_ENABLED": request.param[2],
    }
    command = [sys.executable, str(program), *request.param[:2]]
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def report_once(driver: int, enough: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The report on the driver's job, once it is so far."""
    end, last = time.monotonic() + WITHIN, ""
    command = [sys.executable, "-m", "distdoctor", "hang", "--json", "--pid", str(driver)]
    while time.monotonic() < end:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        last = done.stdout + done.stderr
        found: dict[str, Any] | None = report_in(done.stdout) if done.returncode in (0, 1, 3) else None
        if found and enough(found):
            return found
        time.sleep(1.0)
    raise AssertionError(last[-3000:])


@pytest.mark.parametrize("driver", [("4", "gpu", "0"), ("4", "gpu", "1")], indirect=True, ids=["v1", "v2"])
def test_workers_that_ray_cannot_place(driver: int) -> None:
    report = report_once(driver, lambda found: found["verdict"] == "fail")
    (finding,) = report["findings"]
    assert finding["check"] == "store/nodes-missing"
    assert finding["summary"] == (
        f"The driver (pid {driver}, train.py:{LINES['FITS']}) waits for Ray to place 4 workers with 1 GPU each; Ray's "
        "cluster has 0 GPUs."
    )


@pytest.mark.parametrize("driver", [("2", "cpu", "0"), ("2", "cpu", "1")], indirect=True, ids=["v1", "v2"])
def test_a_worker_that_polls_while_the_other_waits(driver: int) -> None:
    report = report_once(driver, lambda found: any(f["severity"] == "warn" and f["ranks"] for f in found["findings"]))
    (finding,) = report["findings"]
    assert (finding["check"], finding["ranks"]) == ("process/waiting-in-user-code", [1])
    assert f"Rank 0 waits in all_reduce at train.py:{LINES['WAITS']} for rank 1, which " in finding["summary"]
    assert f" at train.py:{LINES['POLLS']} " in finding["summary"]
    assert json.dumps(report).count("no process of a PyTorch job") == 0
