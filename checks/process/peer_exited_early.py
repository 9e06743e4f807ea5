"""A rank left while others still had work to do.

What you see
------------
`Connection closed by peer` in the last steps, while one rank ended without an error: torchrun's table of failures has
all ranks of the node but that one.

Why it happens
--------------
Ranks did different numbers of steps, or one returned early; it exits with status 0 and the others wait for it.

Fix
---
Give every rank the same number of steps (drop_last, join()), and put a barrier before the exit.

When it is harmless
-------------------
At the very end of a job.

See also
--------
process/peer-died, collective/uneven-inputs
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = ("which rank ended without an error, and after how many steps", "distdoctor diagnose LOGS...")
LOG = (
    Line(
        "exits: rank",
        r"^exits: ranks? (?P<ranks>[\d, ]{1,200})(?: and \d+ more)?(?: on (?P<host>\S+))? ended with status 0 before ",
    ),
    Line(
        "Connection closed by peer",
        "gloo.{0,200}Connection closed by peer",
        shows="symptom",
        why="a rank that left without an error closes its connections, one that died resets them as a rule",
    ),
)
