"""The torchrun agents did not end together.

## What you see
`Error waiting on exit barrier. Elapsed: 300... seconds` after the work is done.

## Why it happens
At its end, each torchrun agent waits up to 300 s for the others, in the store of the first one. The agent prints this
line if another agent ended long before, or if the store's host ended first.

## Fix
End the script on all ranks together: `dist.barrier(); dist.destroy_process_group()`. The line itself never fails a
run.

## Confirm with
`grep -n "exit barrier" LOG` on every node; the agent that ended first prints none.

## When it is harmless
When the work is done.

## See also
process/rank0-died
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "store used"
NEXT = ("the logs of the other agents", "distdoctor diagnose LOGS...")
LOG = (
    Line("Error waiting on exit barrier", shows="symptom", why="it is a consequence of how the other agents ended"),
    Line("exit barrier in", shows="noise", why="torchrun prints it at the end of every run"),
    Line(
        "in _exit_barrier",
        shows="symptom",
        why="the agents of the other nodes ended long before or after; their logs show why",
        source=True,
    ),
)
