"""``distdoctor run`` with SLURM, for real: below srun, and before it."""

from __future__ import annotations

import sys

import pytest

from tests.launchers.harness.site import JOB, Site

RUN = [JOB, sys.executable, "-m", "distdoctor", "run"]
FAILS = "import os; rank = os.environ['SLURM_PROCID']; print('rank', rank); 1 / (rank != '1')"
COUNTS = """
import signal, time
got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
print("ready", flush=True)
time.sleep(4)
print("got", len(got), flush=True)
"""


def test_below_srun_one_report_of_the_check_and_a_line_of_the_rank_that_failed(with_slurm: Site) -> None:
    done = with_slurm.run(["srun", "-N2", "--ntasks-per-node=1", *RUN, "--", sys.executable, "-c", FAILS])
    assert done.returncode == 1 and sorted(done.stdout.splitlines()) == ["rank 0", "rank 1"], done.stderr
    lines = [line for line in done.stderr.splitlines() if "distdoctor" in line and not line.startswith("srun")]
    assert len([line for line in lines if "preflight (quick) passed" in line]) == 1, done.stderr
    assert [line for line in lines if "process/exception" in line and "ZeroDivisionError" in line], done.stderr
    assert len(lines) == 2, done.stderr


@pytest.mark.scoreboard
def test_before_srun_the_check_is_a_step_on_the_same_nodes(with_slurm: Site) -> None:
    line = ["srun", "--ntasks-per-node=2", "--label", "sh", "-c", "exit $((SLURM_PROCID))"]
    plain = with_slurm.run(["salloc", "-Q", "-N2", "--ntasks-per-node=2", *line])
    done = with_slurm.run(["salloc", "-Q", "-N2", "--ntasks-per-node=2", *RUN, "--", *line])
    assert done.returncode == plain.returncode == 3
    assert "preflight (quick) passed" in done.stderr and "nodes 2, ranks per node 2" in done.stderr


@pytest.mark.scoreboard
def test_a_signal_to_a_step_comes_once(with_slurm: Site) -> None:
    step = " ".join(["srun", "-N1", *RUN, "--preflight", "off", "--", sys.executable, "-c", f"'{COUNTS}'"])
    script = f"{step} & sleep 2.5; scancel -s USR1 $SLURM_JOB_ID; wait"
    done = with_slurm.run(["salloc", "-Q", "-N1", "sh", "-c", script])
    assert "got 1" in done.stdout, (done.stdout, done.stderr)


def test_a_line_that_wants_a_node_more_than_slurm_started(with_slurm: Site) -> None:
    """Said once before the job and once at its end, by the first task; the job is started all the same."""
    meeting = ["--nnodes", "3", "--rdzv-backend", "c10d", "--rdzv-endpoint", "host0:29644"]
    agent = [sys.executable, "-m", "torch.distributed.run", *meeting, "-m", "this"]
    done = with_slurm.run(["srun", "-N2", "--ntasks-per-node=1", *RUN, "--", "timeout", "8", *agent])
    lines = [line for line in done.stderr.splitlines() if "1 node will never join" in line]
    assert done.returncode == 124 and len(lines) == 2, done.stderr
    assert lines[0] == lines[1] and lines[0].startswith("distdoctor: SLURM started 2 nodes; --nnodes is 3: "), lines
