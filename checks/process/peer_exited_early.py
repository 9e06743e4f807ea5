"""A rank exited while others still had work to do.

## What you see
`Connection closed by peer` in the last steps, while one rank ended without an error: torchrun's table of failures
lists all ranks of the node except that one.

## Why it happens
Ranks ran different numbers of steps, or one returned early. It exits with status 0, and the others wait for it.

## Fix
Give every rank the same number of steps (`DistributedSampler(dataset, drop_last=True)`, `model.join()`), and call
`dist.barrier()` before the exit.

## Confirm with
`print(rank, step)` at the end of the loop on every rank (must be equal).

## When it is harmless
At the very end of a job.

## See also
process/peer-died, collective/uneven-inputs
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = ("the logs of all ranks, to find the one that ended without an error", "distdoctor diagnose LOGS...")
LOG = (
    Line(
        "exits: rank",
        r"^exits: ranks? (?P<ranks>[\d, ]{1,200})(?: and \d+ more)?(?: on (?P<host>\S+))? ended with status 0 before ",
    ),
    Line(
        "Connection closed by peer",
        "gloo.{0,200}Connection closed by peer",
        shows="symptom",
        why="a normal exit closes connections; a death usually resets them",
    ),
)
