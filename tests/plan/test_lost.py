"""A launcher's variables lost on the way: a process below one of its tasks, started with a clean environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from distdoctor.model.errors import UsageError
from distdoctor.plan.launchers.ancestry import refuse_hidden_launcher, step_note
from tests.plan.recorded import env_of
from tests.plan.test_mpi import OPEN_MPI
from tests.plan.test_slurm import STEP

ONE_TASK = STEP | env_of("SLURM_STEP_NUM_TASKS=1 SLURM_STEP_TASKS_PER_NODE=1 SLURM_STEP_NODELIST=sn1 SLURM_NTASKS=1")
PLAN = """
from distdoctor.plan.values import Flags
from distdoctor.plan.resolve import resolve
from distdoctor.model.errors import UsageError
import os, sys
try:
    print(resolve(Flags(standalone=sys.argv[1:] == ["alone"]), os.environ, lambda: 0, lambda: 4).nnodes)
except UsageError as err:
    print(err)
"""


def below(env: dict[str, str], *words: str) -> str:
    """The plan of a process that is started with a clean environment by a shell that has ``env``."""
    kept = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PATH": os.environ["PATH"]}
    clean = " ".join(f"{name}='{value}'" for name, value in kept.items())
    script = f'env -i {clean} "$@"; exit $?'
    command = ["sh", "-c", script, "sh", sys.executable, "-c", PLAN, *words]
    return subprocess.check_output(command, env={**kept, **env}, text=True, timeout=60)


AGENT = env_of(
    "RANK=1 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 WORLD_SIZE=2 GROUP_RANK=0 MASTER_ADDR=n0 MASTER_PORT=29500 "
    "TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_USE_AGENT_STORE=True"
)
SUBMITIT = env_of("SUBMITIT_LOCAL_NTASKS=2 SUBMITIT_LOCAL_GLOBALID=1 SUBMITIT_LOCAL_LOCALID=1")


@pytest.mark.parametrize(
    ("env", "launcher"), [(STEP, "SLURM"), (OPEN_MPI, "Open MPI"), (AGENT, "torchrun"), (SUBMITIT, "submitit")]
)
def test_one_of_several_does_not_take_itself_for_the_only_one(env: dict[str, str], launcher: str) -> None:
    told = below(env)
    assert told.startswith(f"{launcher} started this as one of several, and its variables were lost on the way here")
    assert below(env, "alone") == "1\n"


@pytest.mark.parametrize("env", [{}, ONE_TASK, AGENT | env_of("RANK=0 WORLD_SIZE=1")])
def test_what_is_the_only_one_is_one_machine(env: dict[str, str]) -> None:
    assert below(env) == "1\n"


@pytest.mark.parametrize(
    ("cgroups", "env", "step"),
    [
        ("0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_1\n", {}, "step 0 of SLURM job 12"),
        ("9:pids:/user.slice\n4:memory:/slurm/uid_0/job_7/step_3/task_0\n", {}, "step 3 of SLURM job 7"),
        ("0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_1\n", {"SLURM_JOB_ID": "12"}, ""),
        # a shell that ssh opened on a node of one's job, and no job at all
        ("0::/system.slice/slurmstepd.scope/job_12/step_extern/user/task_special\n", {}, ""),
        ("0::/user.slice/user-0.slice/session-1.scope\n", {}, ""),
    ],
)
def test_the_control_group_tells_of_the_step(tmp_path: Path, cgroups: str, env: dict[str, str], step: str) -> None:
    path = tmp_path / "cgroup"
    path.write_text(cgroups)
    note = step_note(env, path)
    assert (step in note) if step else note == ""
    assert step_note(env, tmp_path / "none") == ""


def test_the_second_task_of_a_node_is_one_of_several(tmp_path: Path) -> None:
    """The first may be the only one, and is told so by a note."""
    path = tmp_path / "cgroup"
    path.write_text("0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_1\n")
    with pytest.raises(UsageError, match="SLURM started this as one of several"):
        refuse_hidden_launcher({}, path)
    refuse_hidden_launcher({"SLURM_JOB_ID": "12"}, path)
    path.write_text("9:pids:/slurm/uid_0/job_7/step_3/task_0\n")
    refuse_hidden_launcher({}, path)
