"""Only some ranks call a collective.

## What you see
A watchdog timeout in a collective that only `if rank == 0:` calls, or in one after it.

## Why it happens
Saving, logging or evaluation under a condition on the rank contains a collective.

## Fix
Move the collective out of the condition: call it on all ranks, and keep only local work under `if rank == 0:`.

## Confirm with
`py-spy dump --pid 4711` on every rank while it hangs, or `distdoctor hang`.

## When it is harmless
Never.

## See also
collective/mismatch, collective/rank-missing
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = ("the stacks of all ranks while it hangs", "py-spy dump --pid PID")
LOG = (
    Line(
        "successfully reached monitoredBarrier, but received errors",
        shows="symptom",
        why="rank 0's log names the missing ranks",
    ),
)
