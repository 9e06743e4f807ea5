"""nccl/rdma-device-missing: what it finds, and what it leaves alone.

It has no case in the lab, whose torch has no CUDA: tests/program/test_standin_nodes.py has it with a stand-in for GPUs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distdoctor.model.facts import NodeFacts
from tests.checks.row import BOTH, Cure, LookAlike, Row, cured, found, left_alone
from tests.clusters.gpu_nodes import one
from tests.clusters.limits import limited
from tests.clusters.rdma_nodes import FILES, several, with_nccl
from tests.facts_builder import with_variables

CHECK = "nccl/rdma-device-missing"
NONE = {"files": ()}
REFUSED = {"unusable": dict.fromkeys(FILES, "EPERM")}
NOBODY = {"NCCL_IB_HCA": "mlx4"}


def bare(*hosts: int, of: int = 2, seen: bool = True, **given: Any) -> tuple[NodeFacts, ...]:
    """Nodes of which these show no RDMA device at all; ``seen``: the kernel was asked."""
    nodes = several(*({} for _ in range(of)), **given)
    return tuple(
        limited(replace(one, rdma=None), open_files=1024 if seen else None) if n in hosts else one
        for n, one in enumerate(nodes)
    )


BOTH_WAYS = {"NCCL_NET": "IB", "NCCL_IB_DISABLE": "1"}


def on_one_host(**variables: str) -> tuple[NodeFacts, ...]:
    """Ranks of one host, which shows no RDMA device."""
    return tuple(with_variables(limited(facts, open_files=1024), **variables) for facts in one())


ROWS = [
    Row("none at all on one", lambda: bare(1), ("host1",), together=True),
    Row("wanted, and none on any", lambda: bare(0, 1, variables={"NCCL_NET": "IB"}), BOTH, together=True),
    Row("wanted, on one host", lambda: on_one_host(NCCL_NET="IB"), ("host0",), together=True),
    Row("wanted and forbidden", lambda: several({}, {}, variables=BOTH_WAYS), BOTH, together=True),
    Row("the same on one host", lambda: on_one_host(**BOTH_WAYS), ("host0",), together=True),
    Row("no container has them", lambda: several(NONE, NONE), BOTH, "warn", together=True),
    Row("one has them not", lambda: several({}, NONE), ("host1",), together=True),
    Row("they may not be opened", lambda: several(REFUSED, {}), ("host0",), together=True),
    Row("wanted and not there", lambda: several(NONE, NONE, variables={"NCCL_NET": "IB"}), BOTH, together=True),
    Row(
        "one of two, on one node",
        lambda: several({}, {"unusable": {FILES[1]: "EPERM"}}),
        ("host1",),
        "warn",
        together=True,
    ),
    Row("a name that none has", lambda: several({}, {}, variables=NOBODY), BOTH, "warn", together=True),
    Row("on one of them", lambda: several({}, {}, variables=({}, NOBODY)), ("host1",), together=True),
]

LOOK_ALIKES = [
    LookAlike("none on one host, and none wanted", on_one_host),
    LookAlike("none on any", lambda: bare(0, 1)),
    LookAlike("not looked at", lambda: bare(1, seen=False)),
    LookAlike("none on one, over sockets", lambda: bare(1, variables={"NCCL_IB_DISABLE": "1"})),
    LookAlike("none on one, and NCCL made its group", lambda: with_nccl(bare(1))),
    LookAlike("one of two files is not for this user", lambda: several(*[{"unusable": {FILES[0]: "EACCES"}}] * 2)),
    LookAlike("sockets are wanted", lambda: several(NONE, NONE, variables={"NCCL_IB_DISABLE": "1"})),
    LookAlike("no port is up", lambda: several(*[{**NONE, "ports": {n: {"state": "DOWN"} for n in range(2)}}] * 2)),
    LookAlike("no such device", lambda: several(*[{**NONE, "ports": None}] * 2, backend="gloo")),
]

CURES = [
    Cure(
        "nothing else is let in",
        lambda: bare(0, 1, variables={"NCCL_NET": "IB"}),
        {name: {"env": {"NCCL_NET": None}} for name in BOTH},
    ),
    Cure(
        "a name that none has",
        lambda: several({}, {}, variables=({}, NOBODY)),
        {"host1": {"env": {"NCCL_IB_HCA": None}}},
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
