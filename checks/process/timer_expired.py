"""A rank exceeded a timer in its program and was killed.

## What you see
`Reaping worker_pid=[1234]. Expired timers: [...]`, `Successfully reaped worker=[1234] with signal=9`; then
`exitcode: -9`, or the launcher itself ends with `Killed`. With ft_launcher:
`Did not get subsequent heartbeat. Waited 300.00 seconds.`

## Why it happens
The program, or a library that it calls, runs a part under `torch.distributed.elastic.timer.expires(after=...)`, and
that part took longer. The agent then kills the rank; the file-based timer also kills the agent itself. The monitors of
ft_launcher (nvidia-resiliency-ext) kill a rank without a heartbeat in time. Memory is not the cause, although the
signal is the same.

## Fix
Fix what the timed part waits for: `distdoctor hang` shows it while it waits (a missing peer, a file system, a slow
step). If it may take that long, raise `expires(after=600)`, or the timeouts of ft_launcher.

## Confirm with
`grep -n "Expired timers" LOG` (names the timed part).

## When it is harmless
Never.

## See also
process/killed-by-oom, collective/slow-rank, collective/heartbeat-stuck
"""

from distdoctor.check_api import Ended, Line

SEVERITY = "fail"
PREVENTS = "results right"
LOG = (
    Line(  # of SGLang: python/sglang/srt/utils/watchdog.py, which then sends SIGQUIT to its launcher
        "atchdog timeout (self.watchdog_timeout=",
        r"[Ww]atchdog timeout \((?P<monitor>self\.watchdog_timeout=)(?P<seconds>\d{1,6})",
        unless="self.soft=True",
        shows="symptom",
        why="a rank made no progress for that time; `py-spy dump` of each scheduler before the kill shows where it is",
    ),
    Line.of_end(Ended(("timer expired",))),
    Line(
        "Reaping worker_",
        r"Reaping worker_(?:p?id)=\[(?P<pid>\d+)\]\. Expired timers: (?P<timers>.{0,200})",
        shows="hint",
        why="a timer without a signal only reports",
    ),
    # of nvidia-resiliency-ext's ft_launcher: fault_tolerance/rank_monitor_server.py
    Line(
        ("heartbeat. Waited ", "FT timeout elapsed", "Was out of section for ", " has been open for "),
        r"(?:\[RankMonitorServer:(?P<rank>\d{1,6}).{0,100})?(?P<monitor>Did not get (?:initial|subsequent) heartbeat\. "
        r"|FT timeout elapsed|Was out of section for [\d.]+ seconds|Section .{1,80} has been open for [\d.]+ seconds)",
        shows="symptom",
        why="it does not show what delayed the rank",
    ),
)
