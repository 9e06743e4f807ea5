"""The NCCL watchdog makes no progress.

## What you see
`ProcessGroupNCCL's watchdog got stuck for 600 seconds without making progress in monitoring enqueued collectives`,
`Heartbeat monitor timed out!`.

## Why it happens
A CUDA call, or a thread that holds the GIL, does not return. The hang has another cause. The monitor ends
the process.

## Fix
Fix the call that does not return: `py-spy dump --native --pid 4711` shows its stack. TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC
only hides the hang.

## Confirm with
`distdoctor hang` on a node of the job while it hangs.

## When it is harmless
Never.

## See also
collective/rank-missing, collective/slow-rank
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = ("the stack of the hanging process", "py-spy dump --native --pid PID")
LOG = (
    Line(
        ("watchdog got stuck for", "Heartbeat monitor timed out"),
        shows="symptom",
        why="it reports a hang, not its cause",
    ),
    Line(
        "Terminating the process after attempting to dump debug info",
        shows="symptom",
        why="the cause is above it, usually a timeout",
    ),
)
