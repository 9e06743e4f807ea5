"""The watchdog itself stands still.

What you see
------------
`ProcessGroupNCCL's watchdog got stuck for 600 seconds without making progress in monitoring enqueued collectives`,
`Heartbeat monitor timed out!`.

Why it happens
--------------
A call into CUDA, or the GIL, does not come back: the hang is elsewhere, and the monitor ends the process.

Fix
---
Find the hang: py-spy dump of that rank, the flight recorder. TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC only hides it.

When it is harmless
-------------------
Never.

See also
--------
collective/rank-missing, collective/slow-rank
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = ("the stack of the process that hangs", "py-spy dump --native --pid PID")
LOG = (
    Line(
        ("watchdog got stuck for", "Heartbeat monitor timed out"),
        shows="symptom",
        why="it tells that something stands still, not what",
    ),
    Line(
        "Terminating the process after attempting to dump debug info",
        shows="symptom",
        why="the reason is above it: a time-out as a rule",
    ),
)
