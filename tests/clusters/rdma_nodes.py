"""Nodes of two GPUs and two RoCE ports, healthy but for what is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from distdoctor.model.facts import Gid, NodeFacts, RankStage, RdmaFacts, RdmaPort
from tests.clusters.gpu_nodes import with_node
from tests.facts_builder import healthy, with_identity, with_plan, with_variables

Changes = dict[str, Any]
FILES = ("/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1")


def gids(host: int, device: int) -> tuple[Gid, ...]:
    """As Mellanox adapters have them: link-local and IPv4, of each version."""
    name, local = f"rdma{device}", f"fe80::{host}:{device}"
    address = f"::ffff:10.9.{device}.{10 + host}"
    return (Gid(0, local, "1", name), Gid(1, local, "2", name), Gid(2, address, "1", name), Gid(3, address, "2", name))


def port(host: int, device: int, **changes: Any) -> RdmaPort:
    """One of them."""
    known: Changes = {"state": "ACTIVE", "physical": "LinkUp", "link_layer": "Ethernet", "rate": 400.0}
    return RdmaPort(f"mlx5_{device}", 1, **{**known, "gids": gids(host, device), **changes})


def with_ports(facts: NodeFacts, host: int, ports: dict[int, Changes] | None = None, **changes: Any) -> NodeFacts:
    """The facts with two ports; changes by device, and of the record itself."""
    shown = tuple(port(host, device, **(ports or {}).get(device, {})) for device in range(2))
    return replace(facts, rdma=RdmaFacts(**{"ports": shown, "files": FILES, **changes}))


def several(
    *nodes: Changes, variables: Sequence[dict[str, str]] | dict[str, str] = (), nccl: str = "2.27.3", **plan: Any
) -> tuple[NodeFacts, ...]:
    """Nodes with these changes each; ``variables`` of each, or the same for all."""
    built = []
    for host, (facts, changes) in enumerate(zip(healthy(len(nodes)), nodes, strict=True)):
        own = variables if isinstance(variables, dict) else (*variables, *[{}] * len(nodes))[host]
        facts = with_plan(facts, **{"backend": "nccl", **plan})
        facts = with_ports(with_node(facts, 2, host=host), host, **changes)
        built.append(with_variables(with_identity(facts, nccl=nccl), **own))
    return tuple(built)


def with_nccl(nodes: tuple[NodeFacts, ...], status: str = "ok") -> tuple[NodeFacts, ...]:
    """The same after the check's own NCCL group ended so on all ranks."""
    stage = RankStage("nccl", status)  # type: ignore[arg-type]
    return tuple(
        replace(one, ranks=tuple(replace(rank, stages=(*rank.stages, stage)) for rank in one.ranks)) for one in nodes
    )
