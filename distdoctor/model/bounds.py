"""Bounds of the numbers and lists that another process sends, checked before their use.

``distdoctor.model.facts.decode`` checks the types as it reads a message; these limits are far above real jobs (1,024
nodes of 8 ranks, one node of some hundred), and far below what would hurt.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from distdoctor.model.device_mesh import MOST_ENTRIES, MOST_GROUPS, dimensions_of, parse_mesh, text_of
from distdoctor.model.facts import ROW_MOST, BadFacts, Interface, LinkRow, NodeFacts
from distdoctor.model.findings import RESTARTS, SEVERITIES, Finding
from distdoctor.model.plan import Plan
from distdoctor.model.report import SCHEMA_VERSION, Report
from distdoctor.model.stages import BY_NAME
from distdoctor.model.text import clean

MAX_NODES = 1_000_000
MAX_WORLD = 10_000_000
"""Limits of a plan; nothing is allocated per node or rank that is only planned."""
MOST_ABSENT = 16_384
"""Limit of the missing nodes or ranks that are named; more are a mistyped number."""
MAX_RANKS_PER_NODE = 4096
MOST_SHELL = 1000
MAX_RANKS = 131_072
"""Limits of the ranks that take part in one run."""
MAX_SECONDS = 86_400.0
"""Limit of ``--timeout``."""
MAX_PARTS = 16
"""Limit of the parts of a report; each has some megabytes."""
MAX_ADDRESSES = 3
"""Limit of one node's addresses that its peers connect to: for gloo, for NCCL, and the one it is reached at."""
MAX_COUNT_DIGITS = 18
MAX_ROUNDS = 6
"""Limit of the rounds of smaller groups."""
MAX_DEPTH = 6
"""Limit of nested lists and mappings in a rank's result of a stage."""
MAX_LIST = 16_384
"""Limit of the interfaces, rules, links and the like of one node."""
_NETWORK = re.compile(r"(?:[\d.]{7,15}/(?:\d|[12]\d|3[0-2])|[\da-fA-F:.]{2,45}/(?:\d|\d\d|1[01]\d|12[0-8]))")
_RUN = re.compile(r"[0-9a-f]{16}")
FIRST_LISTENING_PORT = 1024
"""Lowest port of distdoctor's own listeners, which are on ephemeral ports."""


def within(name: str, value: float | None, low: float, high: float) -> None:
    """Raise BadFacts if ``value`` is not from ``low`` to ``high``. None is accepted."""
    if value is not None and not low <= value <= high:
        raise BadFacts(f"{name} {_short(value)} is not between {low:g} and {high:g}")


def check_facts(facts: NodeFacts) -> None:
    """Raise BadFacts if a number or a list is beyond what one process can have seen."""
    check_plan(facts.plan)
    within("node_rank", facts.node_rank, 0, MAX_NODES)
    within("number of ranks", len(facts.ranks), 0, MAX_RANKS_PER_NODE)
    planned = (facts.plan.nproc_per_node or 1) if facts.plan.started == "node" else 1
    if len(facts.ranks) > planned:
        raise BadFacts(f"{len(facts.ranks)} ranks of one process, which planned {planned}")
    for rank in facts.ranks:
        within("rank", rank.rank, 0, MAX_WORLD)
        within("local rank", rank.local_rank, 0, MAX_WORLD)
        within("stages of a rank", len(rank.stages), 0, 64)
    host, mesh = facts.host, facts.mesh
    for route in facts.network.routes or () if facts.network is not None else ():
        if not _NETWORK.fullmatch(route.network):
            raise BadFacts(f"a route to {clean(_short(route.network))}, which is no network")
    lists = [facts.stages, facts.trials, facts.groups, facts.near_misses, facts.variables]
    if host is not None:
        lists += [host.interfaces, host.hosts_lines, host.leftovers, *(i.addresses for i in host.interfaces)]
        lists += [host.folders or (), host.build_locks or ()]
        for interface in host.interfaces:
            _check_prefixes(interface)
    if mesh is not None:
        lists += [mesh.bad, mesh.rates, mesh.translated]
        _check_row(mesh.row)
    for entries in lists:
        within("number of entries", len(entries), 0, MAX_LIST)
    identity = facts.identity
    for text in (identity.hostname, identity.boot_id, identity.netns, identity.user):
        within("length of a name", len(text), 0, 1024)
    within("pid", identity.pid, 0, 1 << 32)
    within("started_at", facts.started_at, 0, 1e11)
    _check_times(facts)
    for stage in (stage for rank in facts.ranks for stage in rank.stages):
        if deep(stage.detail, MAX_DEPTH):
            raise BadFacts(f"the detail of {_short(stage.stage)} is nested more than {MAX_DEPTH} deep")


def _check_prefixes(interface: Interface) -> None:
    for address, length in zip(interface.addresses, interface.prefix_lengths, strict=False):
        within("prefix length", length, 0, 128 if ":" in address else 32)


def _check_row(row: LinkRow | None) -> None:
    if row is None:
        return
    within("number of nodes in a row", row.nodes, 2, MAX_NODES)
    within("place in a row", row.place, 0, row.nodes - 1)
    for figures in (row.rtt, row.rates, row.lost):
        if figures and len(figures) != row.entries:
            raise BadFacts(f"{len(figures)} figures in a row of {row.entries}")
        for figure in figures:
            within("figure of a link", figure, 0, 1e15)


def _check_times(facts: NodeFacts) -> None:
    spans = [stage.seconds for stage in facts.stages] + [trial.seconds for trial in facts.trials]
    for seconds in (*spans, *(stage.seconds for rank in facts.ranks for stage in rank.stages)):
        within("seconds", seconds, 0, 4 * MAX_SECONDS)
    if facts.meeting is not None:
        within("waited", facts.meeting.waited, 0, 4 * MAX_SECONDS)
        within("wait_limit", facts.meeting.wait_limit, 0, MAX_SECONDS)
        within("unled", facts.meeting.unled, 0, 4 * MAX_SECONDS)
        within("expected", facts.meeting.expected, 0, MAX_WORLD)


def deep(value: object, most: int) -> bool:
    """Return whether plain ``value`` is nested more than ``most`` deep. It looks no further than that."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return any(most <= 1 or deep(item, most - 1) for item in inner if isinstance(item, (dict, list, tuple)))


def check_plan(plan: Plan) -> None:
    """Raise BadFacts if the plan is larger than any that a command line can ask for."""
    within("nnodes", plan.nnodes, 1, MAX_NODES)
    within("min_nodes", plan.min_nodes, 0, MAX_NODES)
    within("join_timeout", plan.join_timeout, 0, 10**9)
    within("nproc_per_node", plan.nproc_per_node, 1, MAX_RANKS_PER_NODE)
    within("node_rank", plan.node_rank, 0, MAX_NODES)
    within("rank", plan.rank, 0, MAX_WORLD)
    within("local_rank", plan.local_rank, 0, MAX_WORLD)
    within("world_size", plan.world_size, 1, MAX_NODES * MAX_RANKS_PER_NODE)
    within("master_port", plan.master_port, 0, 65535)
    within("restart", plan.restart, 0, 1 << 32)
    check_mesh(plan.mesh, plan.groups, plan.mesh_order)
    within("number of nodes named", max(len(plan.roster), len(plan.tasks)), 0, 2 * MAX_RANKS)
    within("settings of the shell", len(plan.shell), 0, MOST_SHELL)


def check_mesh(mesh: tuple[tuple[str, int], ...], groups: int, order: tuple[str, ...] = ()) -> None:
    """Raise BadFacts if no command line can ask for this mesh, this order of its dimensions, or for as many groups."""
    if mesh and parse_mesh(text_of(mesh)) != mesh:
        raise BadFacts(f"a mesh {_short(text_of(mesh))}")
    known, entries = {name for name, _ in mesh}, [dimensions_of(entry) for entry in order[: MOST_ENTRIES + 1]]
    twice = len({name for name, _ in entries}) != len(entries)
    if twice or len(order) > MOST_ENTRIES or any(not {*ones} <= known for _, ones in entries):
        raise BadFacts(f"an order {_short(','.join(order))} of a mesh {_short(text_of(mesh))}")
    within("groups", groups, 0, MOST_GROUPS)


def check_run(run: str, token: str, token_bytes: int) -> None:
    """Raise BadFacts if no node 0 writes these into its marker."""
    if not _RUN.fullmatch(run):
        raise BadFacts(f"run {_short(run)} is not 16 hexadecimal digits")
    if token and not re.fullmatch(rf"[0-9a-f]{{{2 * token_bytes}}}", token):
        raise BadFacts(f"token {_short(token)} is not {2 * token_bytes} hexadecimal digits")


def count(value: bytes) -> int | None:
    """Return the number of a counter in the store; None if it is no number that was counted."""
    if value.isdigit() and len(value) <= MAX_COUNT_DIGITS:
        return int(value)
    return None


def finite_seconds(name: str, value: float) -> None:
    """Raise BadFacts if ``value`` is no time that a stage may take."""
    if not (math.isfinite(value) and 0 <= value <= MAX_SECONDS):
        raise BadFacts(f"{name} {_short(value)} is not between 0 and {MAX_SECONDS:g}")


def _short(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value) if not _huge(value) else "a huge number"
    return text if len(text) <= 40 else text[:37] + "..."


def _huge(value: object) -> bool:
    """Return whether the number has so many digits that printing them takes long."""
    return isinstance(value, int) and value.bit_length() > 256


# Check of another process's report before its use: types, texts and size. The dataclasses of the report leave the plan
# and the details open; these have the fields that renderers read.


T = TypeVar("T")
STATUSES = ("pass", "warn", "fail", "skip", "error")
"""Statuses of a stage in a report."""
MOST_FINDINGS = 4096
MOST_STAGES = 64 * MAX_RANKS
MAX_REPORT_DEPTH = 8
LONGEST = 65_536
"""Limit of the characters of a text."""


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
    """Sections on a running job and on logs, which no node of a check sends."""
    logs: None = None
    lines: None = None
    settings: None = None


def check_report(report: Report) -> None:
    """Raise BadFacts if no node 0 of a check makes such a report: only the types of ``report`` are known."""
    within("schema_version", report.schema_version, SCHEMA_VERSION, SCHEMA_VERSION)
    within("seconds", report.seconds, 0, 4 * MAX_SECONDS)
    for name, values, most in (
        ("nodes", report.nodes, MAX_RANKS),
        ("stages", report.stages, MOST_STAGES),
        ("findings", (*report.findings, *report.ignored), MOST_FINDINGS),
        ("notes", report.notes, MOST_FINDINGS),
        ("checks", report.checks, MOST_FINDINGS),
        ("candidates", report.candidates, MOST_FINDINGS),
    ):
        within(f"number of {name}", len(values), 0, most)
    for value in (report.plan, report.details):
        if deep(value, MAX_REPORT_DEPTH):
            raise BadFacts(f"its values are nested more than {MAX_REPORT_DEPTH} deep")
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
    """Yield every text in plain ``value``, whose depth is bounded."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(name)
            yield from _texts(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner)
