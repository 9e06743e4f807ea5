"""nccl/duplicate-gpu: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import NcclLog
from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, fixes, found, left_alone, on_each
from tests.clusters.gpus import uneven_gpus
from tests.facts_builder import failing, with_variables

CHECK = "nccl/duplicate-gpu"
HOST_ID = "NCCL_HOSTID"


def said(a: int, b: int, host_id: str = "node", nodes: int = 2) -> Facts:
    """Two ranks on each node, and NCCL says of these two that they are on one GPU."""
    warning = f"init.cc:904 NCCL WARN Duplicate GPU detected : rank {a} and rank {b} both on CUDA device 60"
    facts = []
    for one in uneven_gpus(*(2 for _ in range(nodes))):
        one = failing(with_variables(one, **{HOST_ID: host_id} if host_id else {}), "nccl", "DistBackendError: usage")
        log = NcclLog("2.28.9", warnings=(warning,))
        facts.append(replace(one, ranks=tuple(replace(r, nccl=log if r.rank in (a, b) else None) for r in one.ranks)))
    return tuple(facts)


ROWS = [
    Row("one host's id on two", lambda: said(0, 2), BOTH, together=True),
    Row("one host's id on two, of one node's ranks", lambda: said(0, 1), ("host0",), together=True),
    Row("no host's id", lambda: said(0, 2, ""), BOTH, together=True),
]
LOOK_ALIKES = [
    LookAlike(
        "the group was made", lambda: tuple(with_variables(one, **{HOST_ID: "node"}) for one in uneven_gpus(2, 2))
    )
]
CURES = [Cure("one host's id on two", lambda: said(0, 2), on_each(BOTH, {"env": {HOST_ID: None}}), only=True)]


def test_where_no_id_is_set_the_ranks_device_is_asked_for() -> None:
    for facts in (said(0, 2, ""), said(0, 1)):
        (fix,) = fixes(*facts)
        assert "LOCAL_RANK" in fix.text and not fix.env


test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
