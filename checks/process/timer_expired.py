"""A rank stayed too long in a timed part of its program, and was ended.

What you see
------------
`Reaping worker_pid=[1234]. Expired timers: [...]`, `Successfully reaped worker=[1234] with signal=9`; then
`exitcode: -9`, or the launcher itself is gone, `Killed`.

Why it happens
--------------
The program, or a library it calls, put a part of itself under `torch.distributed.elastic.timer.expires(after=...)`, and
that part took longer. The agent then kills the rank, and with the timer that goes by a file itself, too. Want of memory
is not the reason, though the signal is the same.

Fix
---
Find what the timed part that the line names waited for, with `distdoctor hang` while it does: a peer that did not come,
a file system, a slow step. Only where it may take so long, give `expires(after=...)` more seconds.

When it is harmless
-------------------
Never.

See also
--------
process/killed-by-oom, collective/slow-rank, collective/heartbeat-stuck
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
LOG = (
    # torch/distributed/elastic/timer: api.py and file_based_local_timer.py
    Line(
        "uccessfully reaped worker=[",
        r"[Ss]uccessfully reaped worker=\[(?P<pid>\d+)\](?: with signal=(?P<signal>\d+))?",
    ),
    Line(
        "because of expired timers",
        r"Terminating the server process=\[\d+\] because of expired timers",
    ),
    Line(
        "Reaping worker_",
        r"Reaping worker_(?:p?id)=\[(?P<pid>\d+)\]\. Expired timers: (?P<timers>.{0,200})",
        shows="hint",
        why="a timer without a signal only tells",
    ),
)
