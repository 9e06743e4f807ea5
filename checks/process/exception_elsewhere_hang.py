"""One rank raised an exception and the others wait for ever.

What you see
------------
A traceback on one rank while all others stand at 100 % for hours; no launcher ended them.

Why it happens
--------------
Without torchrun (env:// by hand, old launchers, srun without --kill-on-bad-exit) nobody ends the other ranks when one
dies.

Fix
---
Start with torchrun, or srun --kill-on-bad-exit=1; mend the exception.

When it is harmless
-------------------
Never.

See also
--------
process/exception
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = (
    "the log of each rank",
    "",
)
LOG = (
    Line(
        "srun: error: Timed out waiting for job step to complete",
        shows="hint",
        why="tasks were left over",
    ),
)
