"""A rank stayed too long in a timed part of its program, and was ended.

What you see
------------
`Reaping worker_pid=[1234]. Expired timers: [...]`, `Successfully reaped worker=[1234] with signal=9`; then
`exitcode: -9`, or the launcher itself is gone, `Killed`. Of a rank that ft_launcher watches: `Did not get subsequent
heartbeat. Waited 300.00 seconds.`

Why it happens
--------------
The program, or a library it calls, put a part of itself under `torch.distributed.elastic.timer.expires(after=...)`, and
that part took longer. The agent then kills the rank, and with the timer that goes by a file itself, too. The monitors
of ft_launcher (nvidia-resiliency-ext) do so with a rank that sends no heartbeat in time. Want of memory is not the
reason, though the signal is the same.

Fix
---
Find what the timed part that the line names waited for, with `distdoctor hang` while it does: a peer that did not come,
a file system, a slow step. Only where it may take so long, give `expires(after=...)` more seconds, or
ft_launcher longer timeouts.

When it is harmless
-------------------
Never.

See also
--------
process/killed-by-oom, collective/slow-rank, collective/heartbeat-stuck
"""

from distdoctor.check_api import Ended, Line

SEVERITY = "fail"
PREVENTS = "results right"
LOG = (
    Line.of_end(Ended(("timer expired",))),
    Line(
        "Reaping worker_",
        r"Reaping worker_(?:p?id)=\[(?P<pid>\d+)\]\. Expired timers: (?P<timers>.{0,200})",
        shows="hint",
        why="a timer without a signal only tells",
    ),
    # nvidia-resiliency-ext's, of a rank that ft_launcher watches: fault_tolerance/rank_monitor_server.py
    Line(
        ("heartbeat. Waited ", "FT timeout elapsed", "Was out of section for ", " has been open for "),
        r"(?:\[RankMonitorServer:(?P<rank>\d{1,6}).{0,100})?(?P<monitor>Did not get (?:initial|subsequent) heartbeat\. "
        r"|FT timeout elapsed|Was out of section for [\d.]+ seconds|Section .{1,80} has been open for [\d.]+ seconds)",
        shows="symptom",
        why="what the rank waited for, or was slow at, it does not say",
    ),
)
