"""Ranks have different numbers of batches.

## What you see
A watchdog timeout at the end of an epoch; `Detected at least one rank that has exhausted inputs`.

## Why it happens
The data does not divide evenly, so some ranks have one batch more than others.

## Fix
Use `DistributedSampler(dataset, drop_last=True)`, or wrap the loop in `with model.join():`.

## Confirm with
`print(rank, len(loader))` on every rank (must be equal).

## When it is harmless
Never.

## See also
collective/mismatch, process/peer-exited-early
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = ("the number of batches of each rank", "")
LOG = (
    Line("rank that has exhausted inputs"),
    Line(
        "exhausted all inputs",  # torch/distributed/algorithms/join.py, with throw_on_early_termination
        r"Rank (?P<rank>\d{1,6}) exhausted all inputs\.",
    ),
    Line("rank that exhausted inputs"),
)
