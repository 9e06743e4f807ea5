"""Bounds: no number that another process tells is used before it was found to be within what its use gives.

The types are checked as a message is read (``distdoctor.model.facts.decode``); here is how large its numbers and lists
may be. Far above what is met (1,024 nodes of 8 ranks, one node of some hundred), far below what would hurt.
"""

from __future__ import annotations

import math
import re

from distdoctor.model.facts import BadFacts, Interface, LinkRow, NodeFacts
from distdoctor.model.plan import Plan
from distdoctor.model.sanitize import clean

MAX_NODES = 1_000_000
MAX_WORLD = 10_000_000
"""What a plan may ask for; nothing is made per node or rank that is only planned."""
MOST_ABSENT = 16_384
"""Nodes or ranks that are named because they did not come; more are a mistyped number."""
MAX_RANKS_PER_NODE = 4096
MAX_RANKS = 131_072
"""Ranks that take part in one run."""
MAX_SECONDS = 86_400.0
"""As ``--timeout``."""
MAX_PARTS = 16
"""Of a report; each has some megabytes."""
MAX_ADDRESSES = 3
"""Of one node that its peers connect to: for gloo, for NCCL, and the one it is reached at."""
MAX_COUNT_DIGITS = 18
MAX_ROUNDS = 6
"""Of groups of fewer nodes."""
MAX_DEPTH = 6
"""Of what a rank tells of a stage: lists and mappings in each other."""
MAX_LIST = 16_384
"""Interfaces, rules, links and the like of one node."""
_NETWORK = re.compile(r"(?:[\d.]{7,15}/(?:\d|[12]\d|3[0-2])|[\da-fA-F:.]{2,45}/(?:\d|\d\d|1[01]\d|12[0-8]))")
_RUN = re.compile(r"[0-9a-f]{16}")
FIRST_LISTENING_PORT = 1024
"""The doctor's own listeners are on ephemeral ports."""


def within(name: str, value: float | None, low: float, high: float) -> None:
    """Raises BadFacts where ``value`` is not from ``low`` to ``high``. None is in order."""
    if value is not None and not low <= value <= high:
        raise BadFacts(f"{name} {_short(value)} is not between {low:g} and {high:g}")


def check_facts(facts: NodeFacts) -> None:
    """Raises BadFacts where a number or a list is beyond what one process can have seen."""
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
    for one in lists:
        within("number of entries", len(one), 0, MAX_LIST)
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
    """Whether plain ``value`` is nested more than ``most`` deep. Looks no further than that."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return any(most <= 1 or deep(item, most - 1) for item in inner if isinstance(item, (dict, list, tuple)))


def check_plan(plan: Plan) -> None:
    """Raises BadFacts where the plan is larger than any that a command line can ask for."""
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
    within("number of nodes named", max(len(plan.roster), len(plan.tasks)), 0, 2 * MAX_RANKS)


def check_run(run: str, token: str, token_bytes: int) -> None:
    """Raises BadFacts where these are not what a node 0 writes into its mark."""
    if not _RUN.fullmatch(run):
        raise BadFacts(f"run {_short(run)} is not 16 hexadecimal digits")
    if token and not re.fullmatch(rf"[0-9a-f]{{{2 * token_bytes}}}", token):
        raise BadFacts(f"token {_short(token)} is not {2 * token_bytes} hexadecimal digits")


def count(value: bytes) -> int | None:
    """The number that a counter of the store holds; None where it is no number that was counted."""
    if value.isdigit() and len(value) <= MAX_COUNT_DIGITS:
        return int(value)
    return None


def finite_seconds(name: str, value: float) -> None:
    """Raises BadFacts where ``value`` is no time that a stage may take."""
    if not (math.isfinite(value) and 0 <= value <= MAX_SECONDS):
        raise BadFacts(f"{name} {_short(value)} is not between 0 and {MAX_SECONDS:g}")


def _short(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value) if not _huge(value) else "a huge number"
    return text if len(text) <= 40 else text[:37] + "..."


def _huge(value: object) -> bool:
    """Whether it has so many digits that writing them out takes long."""
    return isinstance(value, int) and value.bit_length() > 256
