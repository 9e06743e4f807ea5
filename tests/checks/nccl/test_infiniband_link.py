"""nccl/infiniband-link: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import NodeFacts
from tests.checks.row import BOTH, LookAlike, Row, found, left_alone
from tests.clusters.rdma_nodes import gids, several, with_nccl

CHECK = "nccl/infiniband-link"
DOWN = {"state": "DOWN", "physical": "Polling"}

WAITING = {"state": "INIT", "physical": "LinkUp", "link_layer": "InfiniBand", "gids": ()}
UNMANAGED = {"ports": {0: WAITING, 1: WAITING}}
RAILS = {"ports": {n: {"link_layer": "InfiniBand", "gids": gids(0, n)[:1]} for n in range(2)}}


def lacking(*names: str) -> tuple[NodeFacts, ...]:
    """Three nodes of InfiniBand, of which the last shows these devices alone."""
    one, two, last = several(RAILS, RAILS, RAILS)
    assert last.rdma is not None
    ports = tuple(replace(port, device=name) for name, port in zip(names, last.rdma.ports, strict=False))
    return one, two, replace(last, rdma=replace(last.rdma, ports=ports))


ROWS = [
    Row("one port of two nodes", lambda: several({}, {"ports": {1: DOWN}}), ("host1",), "warn", together=True),
    Row("both ports of two nodes", lambda: several({}, {"ports": {0: DOWN, 1: DOWN}}), ("host1",), together=True),
    Row("a lower rate of two", lambda: several({"ports": {0: {"rate": 100.0}}}, {}), ("host0",), "warn", together=True),
    Row("no subnet manager", lambda: several(UNMANAGED, UNMANAGED), BOTH, "warn", together=True),
    Row(
        "no subnet manager, and nothing else is allowed",
        lambda: several(UNMANAGED, UNMANAGED, variables={"NCCL_NET": "IB"}),
        BOTH,
        together=True,
    ),
    Row("one adapter less", lambda: lacking("mlx5_0"), ("host2",), "warn", together=True),
    Row(
        "all down, and NCCL made its group",
        lambda: with_nccl(several({}, {}, {"ports": {0: DOWN, 1: DOWN}})),
        ("host2",),
        "warn",
        together=True,
    ),
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
    LookAlike("its adapters have other names", lambda: lacking("ibp12s0", "ibp13s0")),
    LookAlike("a port without a cable everywhere", lambda: several(*[{"ports": {1: {**WAITING, **DOWN}}}] * 2)),
    LookAlike("one that waits beside one that is up", lambda: several(*[{"ports": {1: WAITING}}] * 2)),
    LookAlike("not to be taken", lambda: several({}, {"ports": {1: DOWN}}, {}, variables={"NCCL_IB_HCA": "=mlx5_0:1"})),
    LookAlike("InfiniBand is off", lambda: several({}, {"ports": {1: DOWN}}, {}, variables={"NCCL_IB_DISABLE": "1"})),
    LookAlike("sockets are wanted", lambda: several({}, {"ports": {1: DOWN}}, {}, variables={"NCCL_NET": "Socket"})),
    LookAlike("a job of gloo", lambda: several({}, {"ports": {1: DOWN}}, {}, backend="gloo")),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
