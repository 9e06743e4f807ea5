"""nccl/infiniband-gid: what it finds, what it leaves alone, and what cures it."""

from __future__ import annotations

from tests.checks.row import Cure, LookAlike, Row, cured, found, left_alone, on_each
from tests.clusters.rdma_nodes import gids, several

CHECK = "nccl/infiniband-gid"
ALL = ("host0", "host1", "host2")


def indices(*each: str) -> list[dict[str, str]]:
    return [{"NCCL_IB_GID_INDEX": index} for index in each]


SHORT = {"ports": {device: {"gids": gids(1, device)[:3]} for device in range(2)}}
INFINIBAND = {"ports": {device: {"link_layer": "InfiniBand", "gids": gids(1, device)[:1]} for device in range(2)}}

ROWS = [
    Row(
        "beyond one node's table",
        lambda: several({}, SHORT, variables=indices("3", "3")),
        ("host1",),
        together=True,
    ),
    Row("beyond all tables", lambda: several({}, {}, variables=indices("7", "7")), ("host0", "host1"), together=True),
    Row(
        "another version on one of three",
        lambda: several({}, {}, {}, variables=indices("3", "2", "3")),
        ("host1",),
        together=True,
    ),
    Row(
        "link-local on one of two",
        lambda: several({}, {}, variables=indices("3", "1")),
        ("host0", "host1"),
        blame="one-of",
        together=True,
    ),
]

LOOK_ALIKES = [
    LookAlike("the routed one", lambda: several({}, {}, variables=indices("3", "3"))),
    LookAlike("one link for all, RoCE v1", lambda: several({}, {}, variables=indices("2", "2"))),
    LookAlike("InfiniBand does not ask for it", lambda: several(*[INFINIBAND] * 2, variables=indices("3", "3"))),
    LookAlike("NCCL looks itself", lambda: several({}, SHORT, variables=indices("-1", "-1"))),
]

CURES = [
    Cure(
        "another version",
        lambda: several({}, {}, {}, variables=indices("3", "2", "3")),
        on_each(ALL, {"env": {"NCCL_IB_GID_INDEX": "3"}}),
    ),
    Cure(
        "an entry that all have, of a short table",
        lambda: several({}, SHORT, variables=indices("3", "3")),
        on_each(("host0", "host1"), {"env": {"NCCL_IB_GID_INDEX": None}}),
        only=True,
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
