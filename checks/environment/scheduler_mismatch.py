"""The scheduler's tasks do not match the job's processes.

## What you see
`You set --ntasks=... in your SLURM bash script, but this variable is not supported`, `MEMBER: 1/1` on every task, or
only some of the members.

## Why it happens
Lightning, accelerate and others read the number of tasks from SLURM. They expect one task per device; torchrun expects
one per node. In an interactive shell (srun --pty) they treat the shell as a task, print `GLOBAL_RANK: 0, MEMBER: 1/4`,
and wait for tasks that do not exist.

## Fix
Start one task per device, `srun --ntasks-per-node=8 python train.py`, or one task per node with torchrun.

In an interactive shell, set SLURM_JOB_NAME=interactive (Lightning), unset SLURM_NTASKS, or start with srun.

## Confirm with
`env | grep SLURM_NTASKS` shows the number of processes that the job should have.

## When it is harmless
Never.

## See also
environment/world-size-mismatch
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "plan agreed"
NEXT = ("the scheduler's variables", "env | grep SLURM_")
LOG = (
    Line(
        "srun` command is available on your system but is not used",  # Lightning's
        shows="hint",
        why="for a job without SLURM tasks the line is only advice",
    ),
    Line(
        "does not match",
        "number of (?:tasks|nodes|processes).{0,120}(?:SLURM|--ntasks).{0,120}does not match|does not "
        "match.{0,80}--ntasks",
    ),
    Line("is not supported. HINT:", r"--ntasks.{0,120}not supported\. HINT"),
    Line(
        ("There are not enough slots available", "but not enough node entries"),  # Open MPI's
        shows="end",
        told="mpirun has fewer slots than processes to start",
        fix="Give each host one slot per process (-H HOST:SLOTS, slots=SLOTS in a hostfile), or request as many tasks "
        "from the scheduler. Start mpirun from one task of srun.",
    ),
)
