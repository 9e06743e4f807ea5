"""Ranks built different models.

## What you see
`DDP expects same model across all ranks, but Rank 6 has 59 params, while rank 0 has inconsistent 48 params`.

## Why it happens
The model depends on the rank, its data, or a checkpoint that only some ranks have.

## Fix
Build the same model on every rank, from the same configuration and checkpoint, and wrap it once:
`model = DistributedDataParallel(model)`.

## Confirm with
`print(rank, sum(p.numel() for p in model.parameters()))` on every rank before the wrap.

## When it is harmless
With `0 params` the exchange itself failed, and the models may be equal.

## See also
collective/unused-parameters, collective/mismatch
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = ("the first error of all ranks", "")
LOG = (
    Line(
        "DDP expects same model across all ranks",
        r"Rank (?P<rank>\d+) has (?P<own>\d+) params, while rank (?P<other>\d+) "
        r"has inconsistent (?!0 )(?P<others>\d+) params",
    ),
    Line(
        "DDP expects same model across all ranks",
        "inconsistent 0 params",
        shows="symptom",
        why="0 params: the exchange failed, and the models may be equal",
    ),
    Line("appears not to match sizes of the same param"),
    Line("appears not to match strides of the same param"),
)
