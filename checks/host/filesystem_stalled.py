"""A filesystem does not answer.

What you see
------------
Kernel log: `nfs: server X not responding`, `task python:123 blocked for more than 120 seconds`.

Why it happens
--------------
A file server or disk stands still, and every process that touches it with it: a slow rank to the others.

Fix
---
Look at the file server; keep what all ranks read on local disks.

When it is harmless
-------------------
Where it recovered soon (`server X OK`).

See also
--------
host/disk-full, collective/slow-rank
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "store used"
RESTART = "yes"
NEXT = (
    "the rest of the kernel's log",
    "dmesg -T",
)
LOG = (
    Line(
        "nfs: server",
        r"nfs: server \S{1,253} OK",
        shows="noise",
        why="it answers again",
    ),
    Line(
        "not responding",
        r"nfs: server (?P<server>\S{1,253}) not responding",
        shows="symptom",
        why="where it answered again soon, the job only waited",
    ),
    Line(
        "blocked for more than",
        r"task (?P<program>[^:]{1,32}):(?P<pid>\d+) blocked for more than \d+ seconds",
        shows="symptom",
        why="it waited for a disk or a lock, not for ever",
    ),
)
