"""nccl/infiniband-link: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.rdma_nodes import several

CHECK = "nccl/infiniband-link"
DOWN = {"state": "DOWN", "physical": "Polling"}

ROWS = [
    Row("one port of three nodes", lambda: several({}, {"ports": {1: DOWN}}, {}), ("host1",), "warn", together=True),
    Row("both ports", lambda: several({}, {"ports": {0: DOWN, 1: DOWN}}, {}), ("host1",), together=True),
    Row(
        "the only one that is to be taken",
        lambda: several({}, {}, {"ports": {1: DOWN}}, variables={"NCCL_IB_HCA": "mlx5_1"}),
        ("host2",),
        together=True,
    ),
    Row("a lower rate", lambda: several({}, {"ports": {0: {"rate": 100.0}}}, {}), ("host1",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("all up", lambda: several({}, {}, {})),
    LookAlike("the same port down everywhere", lambda: several(*[{"ports": {1: DOWN}}] * 3)),
    LookAlike("two nodes: which of them is right is not known", lambda: several({}, {"ports": {1: DOWN}})),
    LookAlike("not to be taken", lambda: several({}, {"ports": {1: DOWN}}, {}, variables={"NCCL_IB_HCA": "=mlx5_0:1"})),
    LookAlike("InfiniBand is off", lambda: several({}, {"ports": {1: DOWN}}, {}, variables={"NCCL_IB_DISABLE": "1"})),
    LookAlike("sockets are wanted", lambda: several({}, {"ports": {1: DOWN}}, {}, variables={"NCCL_NET": "Socket"})),
    LookAlike("a job of gloo", lambda: several({}, {"ports": {1: DOWN}}, {}, backend="gloo")),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
