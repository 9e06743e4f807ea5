"""nccl/infiniband-unreachable: what it finds of facts, and what it leaves alone.

It has no case in the lab: it is told of jobs that make an NCCL group, which a build of torch without CUDA cannot.
"""

from __future__ import annotations

from distdoctor.model.facts import Gid, NodeFacts
from tests.checks.row import BOTH, LookAlike, Row, found, left_alone
from tests.clusters.rdma_nodes import several, with_nccl

CHECK = "nccl/infiniband-unreachable"


def prefixes(*of: tuple[str, str]) -> tuple[NodeFacts, ...]:
    """Nodes whose two InfiniBand ports are in these subnets."""
    return several(
        *(
            {
                "ports": {
                    n: {"link_layer": "InfiniBand", "gids": (Gid(0, f"{prefix}:{host + 1}:{n}", "1"),)}
                    for n, prefix in enumerate(both)
                }
            }
            for host, both in enumerate(of)
        )
    )


ONE, TWO = "fec0:0:0:1:0:0", "fec0:0:0:2:0:0"

ROWS = [
    Row("a subnet each", lambda: prefixes((ONE, ONE), (TWO, TWO)), BOTH, "warn", "one-of", together=True),
    Row(
        "a subnet each, and NCCL fails",
        lambda: with_nccl(prefixes((ONE, ONE), (TWO, TWO)), "failed"),
        BOTH,
        blame="one-of",
        together=True,
    ),
    Row("one of three", lambda: prefixes((ONE, ONE), (TWO, TWO), (ONE, ONE)), ("host1",), "warn", together=True),
    Row(
        "InfiniBand and RoCE",
        lambda: (prefixes((ONE, ONE), (ONE, ONE))[0], several({}, {})[1]),
        BOTH,
        blame="one-of",
        together=True,
    ),
]

LOOK_ALIKES = [
    LookAlike("one subnet", lambda: prefixes((ONE, ONE), (ONE, ONE))),
    LookAlike("a subnet for each rail", lambda: prefixes((ONE, TWO), (ONE, TWO))),
    LookAlike("one in common", lambda: prefixes((ONE, TWO), (TWO, TWO))),
    LookAlike("over a router, as NCCL's group shows", lambda: with_nccl(prefixes((ONE, ONE), (TWO, TWO)))),
    LookAlike("RoCE", lambda: several({}, {})),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
