"""The table, stage barrier: ranks that stop or end."""

# ruff: noqa: E501 - a case is a line, however long

from __future__ import annotations

import signal

from tests.lab.faults import nothing
from tests.lab.faults.processes import signalled_rank
from tests.lab.harness.case import Case, patient

CASES = [
    *patient(
        Case("a rank is stopped", signalled_rank(1, 2, signal.SIGSTOP), "barrier/rank-stopped", ["host1"], by_hand=nothing, within=15, torch="silent 1800 s"),
        Case("rank 0 is stopped", signalled_rank(0, 0, signal.SIGSTOP), "barrier/rank-stopped", ["host0"], by_hand=nothing, within=15, torch="silent 1800 s"),
        Case("a rank is killed", signalled_rank(1, 3, signal.SIGKILL), "barrier/rank-missing", ["host1"], by_hand=nothing, torch="at once, no cause"),
    ),
]  # fmt: skip
