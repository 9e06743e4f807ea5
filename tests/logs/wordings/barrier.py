"""Lines that are written of failures of the stage barrier."""

from __future__ import annotations

CAUSES: tuple[tuple[str, str], ...] = (
    ("barrier/rank-missing", "RuntimeError: [Rank 0]: Ranks 1 failed to pass monitoredBarrier in 10000 ms"),
    (
        "barrier/rank-missing",
        "[E ProcessGroupGloo.cpp:138] [Rank 0]: Rank 3 failed to pass monitoredBarrier in 2000 ms",
    ),
)

SYMPTOMS: tuple[tuple[str, str], ...] = ()
