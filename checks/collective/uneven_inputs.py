"""Ranks have different numbers of batches.

What you see
------------
A watchdog timeout at the end of an epoch; `Detected at least one rank that has exhausted inputs`.

Why it happens
--------------
The last batches are not the same number on all ranks.

Fix
---
DistributedSampler with drop_last, or model.join().

When it is harmless
-------------------
Never.

See also
--------
collective/mismatch, process/peer-exited-early
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = ("how many batches each rank has", "")
LOG = (
    Line("rank that has exhausted inputs"),
    Line(
        "exhausted all inputs",  # torch/distributed/algorithms/join.py, with throw_on_early_termination
        r"Rank (?P<rank>\d{1,6}) exhausted all inputs\.",
    ),
    Line("rank that exhausted inputs"),
)
