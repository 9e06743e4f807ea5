"""The scheduler's tasks do not match the job's processes.

What you see
------------
`You set --ntasks=... in your SLURM bash script, but this variable is not supported`, `MEMBER: 1/1` on every task, or
only some of the members.

Why it happens
--------------
Lightning, accelerate and others read the number of tasks from SLURM; they expect one task per device, and torchrun one
per node.

Fix
---
One task per device with srun (--ntasks-per-node = devices), or one per node with torchrun.

When it is harmless
-------------------
Never.

See also
--------
environment/world-size-mismatch, environment/slurm-autodetected
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
        "does not match",
        "number of (?:tasks|nodes|processes).{0,120}(?:SLURM|--ntasks).{0,120}does not match|does not "
        "match.{0,80}--ntasks",
    ),
    Line(
        "is not supported. HINT:",
        r"--ntasks.{0,120}not supported\. HINT",
    ),
    Line(
        ("There are not enough slots available", "but not enough node entries"),  # Open MPI's
        shows="end",
        told="mpirun was to start more processes than it was given slots for",
        fix="Give each host as many slots as it is to have processes (-H HOST:SLOTS, slots=SLOTS in a hostfile), or "
        "ask the scheduler for as many tasks; of srun, one task starts it.",
    ),
)
