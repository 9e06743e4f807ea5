"""The report of another process, looked at before anything uses it: its types, its words and how large it is.

The dataclasses of the report leave the plan and the details open; here is the shape that renderers read them by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from distdoctor.model.bounds import MAX_NODES, MAX_RANKS, MAX_RANKS_PER_NODE, MAX_SECONDS, MAX_WORLD, deep, within
from distdoctor.model.facts import ROW_MOST, BadFacts
from distdoctor.model.findings import RESTARTS, SEVERITIES, Finding
from distdoctor.model.report import SCHEMA_VERSION, Report
from distdoctor.model.stages import BY_NAME

T = TypeVar("T")
STATUSES = ("pass", "warn", "fail", "skip", "error")
"""Of a stage of a report."""
MOST_FINDINGS = 4096
MOST_STAGES = 64 * MAX_RANKS
MAX_DEPTH = 8
LONGEST = 65_536
"""Characters of a text."""


@dataclass(frozen=True)
class _Plan:
    nnodes: int | None = None
    nproc_per_node: int | None = None
    node_rank: int | None = None
    world_size: int | None = None
    master_addr: str | None = None
    master_port: int | None = None
    rdzv_backend: str = ""
    init_method: str = ""
    backend: str = ""
    backends: tuple[str, ...] = ()
    started: Literal["node", "rank"] = "node"
    launcher: str = ""
    alone: bool = False
    everywhere: str = ""
    ranks_per_node: tuple[int, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _NodeDetails:
    interfaces: dict[str, tuple[str, ...]] = field(default_factory=dict)
    gloo_address: str = ""
    gloo_interface: str = ""
    reached_at: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    variable_files: dict[str, str] = field(default_factory=dict)
    links_good: int = 0
    links_bad: int = 0
    rtt_median: float = 0.0
    rtt_max: float = 0.0
    python: str = ""
    executable: str = ""
    torch: str = ""
    torch_path: str = ""
    torch_seconds: float = 0.0
    torch_importing: bool = False
    torch_error: str = ""
    collective: dict[str, dict[str, Any]] = field(default_factory=dict)
    gpus: dict[str, Any] = field(default_factory=dict)
    nccl: dict[str, Any] = field(default_factory=dict)


_Matrix = tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class _Links:
    names: tuple[tuple[str, ...], ...]
    rtt: _Matrix = ()
    rates: _Matrix = ()
    lost: _Matrix = ()
    bad: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class _Trial:
    check: str
    option: int
    stages: tuple[str, ...] = ()
    passed: bool = False
    error: str | None = None


@dataclass(frozen=True)
class _Details:
    nodes: dict[str, _NodeDetails] = field(default_factory=dict)
    links: _Links | None = None
    trials: tuple[_Trial, ...] = ()
    job: None = None
    """Of a running job and of logs, which no node of a check tells the others of."""
    logs: None = None
    lines: None = None
    settings: None = None


def check_report(report: Report) -> None:
    """Raises BadFacts where it is none that node 0 of a check makes: the types alone are known of ``report``."""
    within("schema_version", report.schema_version, SCHEMA_VERSION, SCHEMA_VERSION)
    within("seconds", report.seconds, 0, 4 * MAX_SECONDS)
    for name, one, most in (
        ("nodes", report.nodes, MAX_RANKS),
        ("stages", report.stages, MOST_STAGES),
        ("findings", (*report.findings, *report.ignored), MOST_FINDINGS),
        ("notes", report.notes, MOST_FINDINGS),
        ("checks", report.checks, MOST_FINDINGS),
        ("candidates", report.candidates, MOST_FINDINGS),
    ):
        within(f"number of {name}", len(one), 0, most)
    for value in (report.plan, report.details):
        if deep(value, MAX_DEPTH):
            raise BadFacts(f"its values are nested more than {MAX_DEPTH} deep")
    for node in report.nodes:
        within("node rank", node.node_rank, 0, MAX_NODES)
        within("number of ranks", len(node.ranks), 0, MAX_RANKS)
        for rank in node.ranks:
            within("rank", rank, 0, MAX_WORLD)
    for stage in report.stages:
        within(f"seconds of {stage.stage[:40]}", stage.seconds, 0, 4 * MAX_SECONDS)
        if stage.stage not in BY_NAME or stage.status not in STATUSES:
            raise BadFacts(f"a stage {stage.stage[:40]!r} that ended with {stage.status[:40]!r}")
    for finding in (*report.findings, *report.ignored):
        _check_finding(finding)
    _check_plan(_shaped(report.plan, _Plan))
    _check_links(_shaped(report.details, _Details).links)
    for text in _texts(msgspec.to_builtins(report)):
        within("length of a text", len(text), 0, LONGEST)


def _check_finding(finding: Finding) -> None:
    if finding.severity not in SEVERITIES or finding.restart not in ("", *RESTARTS):
        raise BadFacts(f"a finding {finding.id[:60]!r} without a severity, or with an unknown one")
    if not finding.check or not finding.id.startswith(finding.check) or finding.because_of == finding.id:
        raise BadFacts(f"a finding with the id {finding.id[:60]!r} of the check {finding.check[:60]!r}")
    for rank in (*finding.ranks, *finding.local_ranks):
        within("rank", rank, 0, MAX_WORLD)
    for fix in finding.fixes:
        within("option of a fix", fix.option, 1, MOST_FINDINGS)


def _check_plan(plan: _Plan) -> None:
    within("nnodes", plan.nnodes, 1, MAX_NODES)
    within("nproc_per_node", plan.nproc_per_node, 1, MAX_RANKS_PER_NODE)
    within("node_rank", plan.node_rank, 0, MAX_NODES)
    within("world_size", plan.world_size, 1, MAX_NODES * MAX_RANKS_PER_NODE)
    within("master_port", plan.master_port, 0, 65535)
    within("number of nodes named", len(plan.ranks_per_node), 0, 2 * MAX_RANKS)


def _check_links(links: _Links | None) -> None:
    if links is None:
        return
    size = len(links.names)
    within("number of entries", size, 0, ROW_MOST)
    for matrix in (links.rtt, links.rates, links.lost, links.bad):
        if matrix and (len(matrix) != size or any(len(row) != size for row in matrix)):
            raise BadFacts(f"figures of links that are not {size} times {size}")
        for row in matrix:
            for figure in row:
                within("figure of a link", figure, 0, 1e15)


def _shaped(value: Mapping[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as err:
        raise BadFacts(str(err)[:300]) from None


def _texts(value: Any) -> Iterator[str]:
    """Every text in plain ``value``, whose depth is bounded."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(name)
            yield from _texts(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner)
