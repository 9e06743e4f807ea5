"""An interactive SLURM shell is taken for a job.

What you see
------------
`Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/4` and then nothing, in a shell of srun --pty.

Why it happens
--------------
Lightning, accelerate and DeepSpeed see SLURM's variables and wait for tasks that nobody started.

Before the job this cannot be known: in the same shell a script that torchrun starts, or that reads no variable of
SLURM's, trains; which of them it is stands in the script alone. `distdoctor check` takes such a shell for this machine
alone.

Fix
---
SLURM_JOB_NAME=interactive (Lightning), unset SLURM_NTASKS, or start with srun.

When it is harmless
-------------------
Never.

See also
--------
environment/scheduler-mismatch
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "plan agreed"
NEXT = (
    "what the scheduler gave",
    "env | grep SLURM_",
)
LOG = (
    Line(
        "srun` command is available on your system but is not used",
        shows="hint",
        why="without SLURM's tasks it is only advice",
    ),
)
