"""environment/ucx-devices: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.environment.ucx_devices import expanded
from distdoctor.model.facts import NodeFacts
from tests.checks.row import BOTH, Cure, LookAlike, Row, cured, found, left_alone
from tests.clusters.engines import API, NIXL, engine
from tests.clusters.limits import limited

CHECK = "environment/ucx-devices"
LIBFABRIC = replace(NIXL, use="NIXL side channel over LIBFABRIC")


def ucx(*ports: object, rdma: tuple[str, ...] = ("mlx5_0", "mlx5_1"), **given: object) -> tuple[NodeFacts, ...]:
    """Nodes of an engine with these RDMA devices and eth0, and variables of UCX."""
    given = {"VLLM_NIXL_SIDE_CHANNEL_HOST": "host0", **given}
    return tuple(limited(one, rdma_devices=rdma) for one in engine(API, *ports, **given))  # type: ignore[arg-type]


ROWS = [
    Row("a card of another node", lambda: ucx(NIXL, UCX_NET_DEVICES="mlx5_9:1"), BOTH, together=True),
    Row("no RDMA in the container", lambda: ucx(NIXL, UCX_NET_DEVICES="mlx5_[0-1]:1", rdma=()), BOTH, together=True),
    Row("one of two", lambda: ucx(NIXL, UCX_NET_DEVICES="mlx5_0:1,mlx5_9:1"), BOTH, "warn", together=True),
    Row("without a connector", lambda: ucx(UCX_NET_DEVICES="mlx5_9:1"), BOTH, "warn", together=True),
    Row("by libfabric", lambda: ucx(LIBFABRIC, UCX_NET_DEVICES="mlx5_9:1"), BOTH, "warn", together=True),
    Row("one node", lambda: ucx(NIXL, UCX_NET_DEVICES="mlx5_9:1", nodes=1), BOTH[:1], "warn", together=True),
    Row("only inside a node", lambda: ucx(NIXL, UCX_TLS="cuda_ipc,cuda_copy,sm,self"), BOTH, together=True),
]
LOOK_ALIKES = [
    LookAlike("neither is set", lambda: ucx(NIXL)),
    LookAlike("devices with their ports", lambda: ucx(NIXL, UCX_NET_DEVICES="mlx5_0:1,mlx5_1:1")),
    LookAlike("a range", lambda: ucx(NIXL, UCX_NET_DEVICES="mlx5_[0-1]:1")),
    LookAlike("without a port", lambda: ucx(NIXL, UCX_NET_DEVICES="mlx5_0")),
    LookAlike("by a GPU", lambda: ucx(NIXL, UCX_NET_DEVICES="cuda0-mlx5_0:1")),
    LookAlike("an interface", lambda: ucx(NIXL, UCX_NET_DEVICES="eth0", rdma=())),
    LookAlike("all", lambda: ucx(NIXL, UCX_NET_DEVICES="all", UCX_TLS="all")),
    LookAlike("all but some", lambda: ucx(NIXL, UCX_NET_DEVICES="^mlx5_9:1", UCX_TLS="^cuda_ipc")),
    LookAlike("TCP", lambda: ucx(NIXL, UCX_TLS="cuda_ipc,cuda_copy,tcp")),
    LookAlike("RDMA by its name", lambda: ucx(NIXL, UCX_TLS="rc_x,self,sm,cuda_copy")),
    LookAlike("an auxiliary transport", lambda: ucx(NIXL, UCX_TLS="\\rc_mlx5,ud_mlx5:aux")),
    LookAlike("no engine", lambda: ucx(kind="", UCX_NET_DEVICES="mlx5_9:1")),
]
CURES = [
    Cure(
        "what the node has",
        lambda: ucx(NIXL, UCX_NET_DEVICES="mlx5_9:1"),
        {name: {"env": {"UCX_NET_DEVICES": None}} for name in BOTH},
        only=True,
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


@pytest.mark.parametrize(
    ("name", "names"), [("mlx5_[2-4]:1", ["mlx5_2:1", "mlx5_3:1", "mlx5_4:1"]), ("eth0", ["eth0"]), ("a[x]", ["a[x]"])]
)
def test_a_range_of_devices(name: str, names: list[str]) -> None:
    assert expanded(name) == names
