"""A collective is called by some ranks only.

What you see
------------
A watchdog timeout in a collective that only `if rank == 0:` calls, or in one after it.

Why it happens
--------------
Saving, logging or evaluation under a condition on the rank contains a collective.

Fix
---
Call it on all ranks, and put only what is local under the condition.

When it is harmless
-------------------
Never.

See also
--------
collective/mismatch, collective/rank-missing
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = ("the stacks of all ranks in the hang", "py-spy dump --pid PID")
LOG = (
    Line(
        "successfully reached monitoredBarrier, but received errors",
        shows="symptom",
        why="rank 0's log says who did not come",
    ),
)
