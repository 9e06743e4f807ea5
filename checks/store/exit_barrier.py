"""The agents did not end together.

What you see
------------
`Error waiting on exit barrier. Elapsed: 300... seconds` after the work was done.

Why it happens
--------------
Each torchrun waits at the end for the others, 300 s at most, in the store of the first; where one ended long before, or
the store's host went first, it says so.

Fix
---
A barrier at the end of the script; it is never the reason of a failed run.

When it is harmless
-------------------
After work that is done.

See also
--------
process/rank0-died
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "store used"
NEXT = ("the logs of the other agents", "distdoctor diagnose LOGS...")
LOG = (
    Line("Error waiting on exit barrier", shows="symptom", why="it follows from how the others ended"),
    Line("exit barrier in", shows="noise", why="torchrun tells so at the end of every run"),
    Line(
        "in _exit_barrier",
        shows="symptom",
        why="the agents of the other nodes ended long before or after: what their workers did says why",
        source=True,
    ),
)
