"""The scheduler's tasks do not match the job's processes.

What you see
------------
`You set --ntasks=... in your SLURM bash script, but this variable is not supported`, `MEMBER: 1/1` on every task, or
only some of the members.

Why it happens
--------------
Lightning, accelerate and others read the number of tasks from SLURM; they expect one task per device, and torchrun one
per node. In an interactive shell (srun --pty) they take the shell for a task, write `GLOBAL_RANK: 0, MEMBER: 1/4`, and
wait for tasks that nobody started.

Fix
---
One task per device with srun (--ntasks-per-node = devices), or one per node with torchrun. In an interactive shell:
SLURM_JOB_NAME=interactive (Lightning), unset SLURM_NTASKS, or start with srun.

When it is harmless
-------------------
Never.

See also
--------
environment/world-size-mismatch
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "plan agreed"
NEXT = ("what the scheduler gave", "env | grep SLURM_")
LOG = (
    Line(
        "srun` command is available on your system but is not used",  # Lightning's
        shows="hint",
        why="without SLURM's tasks it is only advice",
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
        told="mpirun was to start more processes than it was given slots for",
        fix="Give each host as many slots as it is to have processes (-H HOST:SLOTS, slots=SLOTS in a hostfile), or "
        "ask the scheduler for as many tasks; of srun, one task starts it.",
    ),
)
