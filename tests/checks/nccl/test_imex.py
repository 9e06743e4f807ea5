"""nccl/imex: what it finds, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distdoctor.model.facts import NodeFacts
from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import several
from tests.facts_builder import with_identity, with_variables

CHECK = "nccl/imex"


def domain(
    *channels: int, clusters: Sequence[str] = "aaa", nccl: str = "2.27.5", **variables: Any
) -> tuple[NodeFacts, ...]:
    """Nodes of one NVLink domain, with so many channels each."""
    nodes = several(
        *(
            {"devices": {n: {"fabric_cluster": cluster} for n in range(8)}, "driver": {"imex_channels": count}}
            for count, cluster in zip(channels, clusters, strict=False)
        )
    )
    return tuple(with_variables(with_identity(node, nccl=nccl), **variables) for node in nodes)


ROWS = [Row("no channel on one", lambda: domain(1, 0, 1), ("host1",), severity="warn", together=True)]

LOOK_ALIKES = [
    LookAlike("each has one", lambda: domain(1, 1, 1)),
    LookAlike("a domain for each node", lambda: domain(0, 0, 0, clusters="abc")),
    LookAlike("in no domain", lambda: domain(0, 0, 0, clusters=("", "", ""))),
    LookAlike("one that is in none", lambda: domain(0, 0, 0, clusters=("a", "a", ""))),
    LookAlike("NCCL is told to do without", lambda: domain(0, 0, NCCL_MNNVL_ENABLE="0")),
    LookAlike("NCCL is too old for it", lambda: domain(0, 0, nccl="2.20.5")),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
