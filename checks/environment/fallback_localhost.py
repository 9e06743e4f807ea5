"""The launch script fell back to localhost.

What you see
------------
`scontrol: command not found`, then each node waits for itself.

Why it happens
--------------
A launch script asks scontrol for the first host and uses localhost where that fails, as in a container without Slurm's
tools.

`distdoctor check` started by the same script says so before the job: localhost on several hosts is
network/master-not-node0, with SLURM's list of the job's nodes and the first of them to name instead. A log only shows
that scontrol was missing.

Fix
---
Compute MASTER_ADDR outside the container and pass it in.

When it is harmless
-------------------
On one node.

See also
--------
network/master-not-node0
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "plan agreed"
NEXT = (
    "which MASTER_ADDR each node has",
    "env | grep MASTER_",
)
LOG = (
    Line(
        ("scontrol: command not found", "scontrol: not found"),
        shows="hint",
        why="where the script has another way to know the first host, it does no harm",
    ),
)
