"""nccl/topo-file-bad: what it finds, what it leaves alone, and what cures it.

It has no case in the lab, whose torch has no CUDA: tests/program/test_standin_nodes.py has it with a stand-in for GPUs.
"""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import NodeFacts, TopologyFile
from tests.checks.row import Cure, LookAlike, Row, cured, found, left_alone
from tests.clusters.rdma_nodes import several

CHECK = "nccl/topo-file-bad"
PATH = "/opt/topology.xml"
ABSENT = TopologyFile("/opt/graph.xml", missing="ENOENT")
REFUSED = TopologyFile(PATH, refused="expected '>' in the tag ?xml, got '?' (line 1)")


def on_second(
    file: TopologyFile | None, graph: TopologyFile | None = None, backend: str = "nccl"
) -> tuple[NodeFacts, ...]:
    first, second = several({}, {}, backend=backend)
    return first, replace(second, topology=file, graph=graph)


def on_both(graph: TopologyFile) -> tuple[NodeFacts, ...]:
    first, second = several({}, {}, backend="nccl")
    return replace(first, graph=graph), replace(second, graph=graph)


ROWS = [
    Row("refused", lambda: on_second(REFUSED), ("host1",), together=True),
    Row("a graph that is refused", lambda: on_second(None, REFUSED), ("host1",), together=True),
    Row("a graph that is not there", lambda: on_second(None, ABSENT), ("host1",), together=True),
    Row("the same on both", lambda: on_both(ABSENT), ("host0", "host1"), together=True),
    Row("where machines have it", lambda: on_second(replace(REFUSED, variable=False)), ("host1",), together=True),
]

LOOK_ALIKES = [
    LookAlike("read", lambda: on_second(TopologyFile(PATH))),
    LookAlike("not there", lambda: on_second(TopologyFile(PATH, missing="ENOENT"))),
    LookAlike("a job of gloo", lambda: on_second(REFUSED, ABSENT, backend="gloo")),
    LookAlike("a graph that is read", lambda: on_second(None, TopologyFile("/opt/graph.xml"))),
    LookAlike("a folder", lambda: on_second(None, TopologyFile("/opt", missing="EISDIR"))),
]

CURES = [
    Cure("unset", lambda: on_second(REFUSED), {"host1": {"env": {"NCCL_TOPO_FILE": None}}}),
    Cure("no graph", lambda: on_second(None, ABSENT), {"host1": {"env": {"NCCL_GRAPH_FILE": None}}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
