"""The table, stage collective: results and times of the collectives."""

# ruff: noqa: E501 - a case is a line, however long

from __future__ import annotations

from tests.lab.cases.common import BOTH
from tests.lab.faults import nothing
from tests.lab.faults.links import card_changed, damages
from tests.lab.faults.processes import load_ended, starved
from tests.lab.harness.case import Case, patient

CASES = [
    *patient(
        Case("one of 2 damages data", damages(1), "collective/wrong-result", BOTH, blame="one-of", by_hand=card_changed(1), torch="none, wrong results"),
        Case("one of 3 damages data", damages(2), "collective/wrong-result", ["host1", "host2"], blame="one-of", hosts=3, by_hand=card_changed(2), torch="none, wrong results"),
        Case("the ranks of one node share a busy core", starved(1, 2, 3), "collective/slow-rank", ["host1"], "warn", by_hand=nothing, torch="none, slower"),
        Case("a rank of 3 nodes has a busy core", starved(2, 2, others=40), "collective/slow-rank", ["host2"], "warn", hosts=3, nproc=1, by_hand=load_ended, torch="none, slower"),
    ),
]  # fmt: skip
