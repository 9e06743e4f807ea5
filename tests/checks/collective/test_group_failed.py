"""collective/group-failed: the group that failed first, and what tells it from the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from distdoctor.model.device_mesh import parse_mesh
from distdoctor.model.facts import RankStage
from tests.checks.row import BOTH, Facts, LookAlike, Row, found, left_alone, root
from tests.facts_builder import healthy, with_plan

CHECK = "collective/group-failed"
SILENT = "ended after 5.0 s: it did not return: no answer from remote=[10.0.0.1]:41000"
WAITED = "ended after 6.0 s: another rank failed"
CLOSED = "RuntimeError: [gloo] Connection closed by peer [10.0.0.1]:41000"


def ended(
    ends: Mapping[int, tuple[int, str, str]], mesh: str = "dp=2,tp=2", groups: int = 0, stage: str = "gloo-groups"
) -> Facts:
    """Two nodes of two ranks after their groups: rank -> (group, step, error); of all others they worked."""

    def one(rank: int) -> RankStage:
        if rank not in ends:
            return RankStage(stage, "ok", detail={"groups": 2, "files": 40, "threads": 9})
        group, during, error = ends[rank]
        detail: dict[str, Any] = {"group": group, "during": during}
        detail |= {"killed": True} if error.startswith("ended") else {"files": 40, "threads": 9}
        return RankStage(stage, "failed", error=error, detail=detail)

    nodes = (with_plan(node, mesh=parse_mesh(mesh) or (), groups=groups) for node in healthy(2, nproc=2))
    return tuple(
        replace(node, ranks=tuple(replace(r, stages=(*r.stages, one(r.rank or 0))) for r in node.ranks))
        for node in nodes
    )


def first_across() -> Facts:
    """Ranks 1 and 3 create their group in vain, and ranks 0 and 2 wait for them in the next dimension."""
    silent, waits = (1, "new_group", SILENT), (2, "new_group", WAITED)
    return ended({1: (1, "new_group", WAITED), 3: silent, 0: waits, 2: (3, "new_group", WAITED)})


def third_of_all() -> Facts:
    return ended({n: (2, "new_group", SILENT if n == 2 else WAITED) for n in range(4)}, mesh="", groups=4)


def wrong_sum() -> Facts:
    error = "RuntimeError: all_reduce of 2 ones gives 7"
    return ended({2: (3, "all_reduce", error), 3: (3, "all_reduce", error)})


ROWS = [
    Row("the first across nodes", first_across, BOTH, blame="one-of", together=True),
    Row("the third of all ranks", third_of_all, BOTH, blame="one-of", together=True),
    Row("a wrong sum on one node", wrong_sum, ("host1",), together=True),
]
LOOK_ALIKES = [LookAlike("all work", lambda: ended({}, groups=3))]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


@pytest.mark.parametrize(
    ("facts", "summary", "evidence"),
    [
        (first_across, "of dp (ranks 1 and 3 on host0 and host1) fails in new_group()", "alternate"),
        (third_of_all, "group 3 (ranks 0-3 on host0 and host1) fails in new_group()", "2 earlier groups across host0"),
        (wrong_sum, "of tp (ranks 2 and 3 on host1) fails in its first all_reduce", "all its ranks are on host1"),
    ],
    ids=["across", "third", "sum"],
)
def test_the_group_and_what_distinguishes_it_are_named(facts: Any, summary: str, evidence: str) -> None:
    one = root(*facts())
    assert summary in one.summary
    if evidence != "alternate":
        assert any(evidence in line for line in one.evidence), one.evidence
    assert "the default group of all 4 ranks works" in one.evidence[0]


def test_a_rank_that_got_no_answer_comes_before_those_that_lost_their_peer() -> None:
    facts = ended({0: (0, "new_group", CLOSED), 1: (1, "new_group", SILENT)}, mesh="", groups=2)
    assert "group 2" in root(*facts).summary


def test_queue_pairs_of_nccl() -> None:
    error = (
        "DistBackendError: NCCL error ... Last error: Call to ibv_create_qp failed with error Cannot allocate memory"
    )
    one = root(*ended(dict.fromkeys((0, 2), (0, "barrier", error)), stage="nccl-groups"))
    assert "NCCL group of dp" in one.summary and "NCCL_IB_QPS_PER_CONNECTION" in one.fixes[0].text
