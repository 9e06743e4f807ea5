"""Ranks call different collectives, or with different sizes.

What you see
------------
`Detected mismatch between collectives on ranks`, gloo's `Received data size doesn't match expected size`, watchdogs
with different sizes at one sequence number.

Why it happens
--------------
Ranks took different paths: a branch on the rank, on data, or another order of calls.

Fix
---
Make all ranks call the same collectives in the same order with the same shapes; TORCH_DISTRIBUTED_DEBUG=DETAIL names
the first that differs.

When it is harmless
-------------------
Never.

See also
--------
collective/rank-missing, collective/rank-conditional, collective/uneven-inputs
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = (
    "the call that differs",
    "TORCH_DISTRIBUTED_DEBUG=DETAIL",
)
LOG = (
    Line(
        "flight recorder: ",
        r"number \d+: ranks? (?P<ranks>[\d, ]{1,200})(?: and \d+ more)? called .{1,300}, the others ",
    ),
    Line(
        "Detected mismatch between collectives",
        "Detected mismatch between collectives on ranks",
    ),
    Line(
        "op.preamble.length <= op.nbytes",
    ),
    Line(
        "Received data size doesn",
        "Received data size doesn.?t match expected size",
    ),
    Line(
        "collective operation timeout",
        "different sizes at one sequence number",
        shows="hint",
        why="compare the ranks",
    ),
    Line(
        "Mismatched collective detected",
        r"Mismatched collective detected(?:.{0,100}around rank (?P<rank>\d+))?",
    ),
    Line(
        "Mismatch between collective",
        "Mismatch between collective operation",
    ),
)
