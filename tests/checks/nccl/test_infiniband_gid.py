"""nccl/infiniband-gid: what it finds, what it leaves alone, and what cures it."""

from __future__ import annotations

from distdoctor.model.facts import Gid
from tests.checks.row import Cure, LookAlike, Row, cured, found, left_alone, on_each
from tests.clusters.rdma_nodes import gids, several, with_nccl

CHECK = "nccl/infiniband-gid"
ALL = ("host0", "host1", "host2")


def indices(*each: str) -> list[dict[str, str]]:
    return [{"NCCL_IB_GID_INDEX": index} for index in each]


SHORT = {"ports": {device: {"gids": gids(1, device)[:3]} for device in range(2)}}
INFINIBAND = {"ports": {device: {"link_layer": "InfiniBand", "gids": gids(1, device)[:1]} for device in range(2)}}

LINK_LOCAL = {"ports": {device: {"gids": gids(2, device)[:2]} for device in range(2)}}
VERSION_1 = {"ports": {device: {"gids": gids(2, device)[::2]} for device in range(2)}}
IPV6 = {
    "ports": {
        device: {"gids": (*gids(1, device)[:2], Gid(2, f"2001:db8::{device}", "1"), Gid(3, f"2001:db8::{device}", "2"))}
        for device in range(2)
    }
}

ROWS = [
    Row("no address on one of three", lambda: several({}, {}, LINK_LOCAL), ("host2",), together=True),
    Row(
        "NCCL looks itself, and one of two has RoCE v1 alone",
        lambda: several({}, SHORT, variables=indices("-1", "-1")),
        ("host0", "host1"),
        blame="one-of",
        together=True,
    ),
    Row(
        "no address on one port of one of three",
        lambda: several({}, {"ports": {1: {"gids": gids(1, 1)[:2]}}}, {}),
        ("host1",),
        "warn",
        together=True,
    ),
    Row("RoCE v1 alone on one of three", lambda: several({}, {}, VERSION_1), ("host2",), together=True),
    Row("no address on one of two", lambda: several({}, LINK_LOCAL), ("host0", "host1"), blame="one-of", together=True),
    Row("beyond one node's table", lambda: several({}, SHORT, variables=indices("3", "3")), ("host1",), together=True),
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
    LookAlike("no address on all", lambda: several(LINK_LOCAL, LINK_LOCAL)),
    LookAlike("IPv6 on all, wanted", lambda: several(IPV6, IPV6, variables={"NCCL_IB_ADDR_FAMILY": "AF_INET6"})),
    LookAlike("an old NCCL takes the first of all", lambda: several({}, LINK_LOCAL, nccl="2.19.3")),
    LookAlike("NCCL made its group so", lambda: with_nccl(several({}, {}, LINK_LOCAL))),
    LookAlike("NCCL looks itself", lambda: several({}, {}, variables=indices("-1", "-1"))),
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
