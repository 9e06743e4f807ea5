"""A step that takes more memory than it asked for, in a real SLURM: what diagnose says of what srun then wrote."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.launchers.harness import site, slurm
from tests.logs.judging import judged_files

PROGRAM = """import os, time
print("epoch 1", flush=True)
held = [bytearray(20 << 20) for _ in range(40)] if os.environ["SLURM_PROCID"] == "1" else []
time.sleep(60)
"""


@pytest.mark.scoreboard
def test_the_kernel_kills_a_task_of_a_step(tmp_path: Path) -> None:
    if reason := site.unfit(*slurm.PROGRAMS):
        pytest.skip(reason)
    if not slurm.MEMORY_CGROUPS.is_dir():
        pytest.skip("no memory cgroup (v1) to be limited by")
    with site.Site(2) as real, slurm.Slurm(real.cluster, site.LOGIN, limits_memory=True) as queue:
        done = queue.run(["srun", "-K", "-N2", "--mem=120M", sys.executable, "-S", "-c", PROGRAM])
    assert "oom" in done.stderr, done.stderr
    log = tmp_path / "slurm-1.out"
    log.write_text(done.stdout + done.stderr)
    found = judged_files(tmp_path)
    root = found.findings[0]
    assert (root.check, root.nodes, root.ranks) == ("process/killed-by-oom", ("host1",), (1,)), done.stderr
    assert {one.because_of for one in found.findings[1:]} <= {"process/killed-by-oom"}, done.stderr
