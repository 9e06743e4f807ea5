"""nccl/rdma-unused: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import NcclLog, NodeFacts
from tests.checks.row import BOTH, LookAlike, Row, found, left_alone, root
from tests.clusters.rdma_nodes import several
from tests.facts_builder import failing

CHECK = "nccl/rdma-unused"
NO_LIBRARY = ("Failed to open libibverbs.so[.1]",)


def said(*networks: str, variables: dict[str, str] | None = None, fails: bool = False) -> tuple[NodeFacts, ...]:
    """Nodes with active ports, and what the NCCL of each said that it uses."""
    nodes = several(*[{} for _ in networks], variables=variables or {})
    if fails:
        nodes = tuple(failing(one, "nccl", "NCCL error") for one in nodes)
    logs = [NcclLog(network=name, notes=NO_LIBRARY if name == "Socket" else ()) for name in networks]
    return tuple(
        replace(one, ranks=tuple(replace(rank, nccl=log) for rank in one.ranks))
        for one, log in zip(nodes, logs, strict=True)
    )


def portless(*networks: str) -> tuple[NodeFacts, ...]:
    return tuple(replace(one, rdma=None) for one in said(*networks, fails=True))


ROWS = [
    Row("no libibverbs in the image of all", lambda: said("Socket", "Socket"), BOTH, "warn", together=True),
    Row("in that of one alone", lambda: said("IB", "Socket", "IB", fails=True), ("host1",), together=True),
]
ROWS += [
    Row("a plugin on two of three", lambda: said("gIB", "IB", "gIB", fails=True), ("host1",), together=True),
    Row("on one of two", lambda: said("IBext_v8", "IB", fails=True), BOTH, blame="one-of", together=True),
    Row("without a port to see", lambda: portless("FasTrak", "Socket", "FasTrak"), ("host1",), together=True),
]
LOOK_ALIKES = [
    LookAlike("different networks, and the group was made", lambda: said("gIB", "IB", "gIB")),
    LookAlike("they use the ports", lambda: said("IB", "IB")),
    LookAlike("a plugin uses them", lambda: said("AWS Libfabric", "AWS Libfabric")),
    LookAlike("nothing was said", lambda: said("", "")),
    LookAlike("sockets are asked for", lambda: said("Socket", "Socket", variables={"NCCL_NET": "Socket"})),
    LookAlike("the ports are forbidden", lambda: said("Socket", "Socket", variables={"NCCL_IB_DISABLE": "1"})),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def remedy(*nodes: NodeFacts) -> str:
    return root(*nodes).fixes[0].text


def test_the_fix_is_for_what_was_said_to_be_missing() -> None:
    assert "rdma-core" in remedy(*said("Socket", "Socket"))
    silent = [
        replace(one, ranks=tuple(replace(rank, nccl=NcclLog(network="Socket")) for rank in one.ranks))
        for one in said("Socket", "Socket")
    ]
    assert "rdma-core" not in remedy(*silent) and "NCCL_DEBUG_SUBSYS=INIT,NET" in remedy(*silent)
    assert "Install the network plugin AWS Libfabric on host1" in remedy(
        *said("AWS Libfabric", "Socket", "AWS Libfabric", fails=True)
    )
