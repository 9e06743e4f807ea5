"""A rank did not take part in a collective.

What you see
------------
Watchdog timeouts with the same sequence number on all ranks but one; `finished collective #42, but didn't join
collective #43`; in flight-recorder dumps a rank without the collective.

Why it happens
--------------
The absent rank hangs, died, or took another path.

Fix
---
Look at the absent rank: its stack (py-spy dump), its log, what it did last.

When it is harmless
-------------------
Never.

See also
--------
collective/mismatch, collective/slow-rank, barrier/rank-missing
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = (
    "the flight recorder's dumps of all ranks, or the log of the rank without a timeout",
    "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1",
)
LOG = (
    Line(
        "flight recorder: ",
        r"ranks? (?P<ranks>(?P<missing>[\d, ]{1,200}))(?: and \d+ more)? never called ",
    ),
    Line(
        "join collective #",
        r"\[(?P<ranks>(?P<missing>[\d, ]+))\] finished collective #\d+, but didn.?t join collective",
    ),
    Line(
        "join or finish collective",
        r"\[(?P<ranks>(?P<missing>[\d, ]+))\].{0,80}didn.?t join or finish collective",
    ),
    Line(
        "collective operation timeout",
        "Watchdog caught collective operation timeout",
        shows="symptom",
        why="a slow rank shows the same",
    ),
    Line(
        "Communicator ranks have different",
        shows="symptom",
        why="ranks that are behind may only be slow",
    ),
    Line(
        "Timed out waiting",
        r"Timed out waiting \d+ ?ms for (?:recv|send) operation",
        shows="symptom",
        why="a slow rank, and packets that are lost, show the same",
    ),
)
