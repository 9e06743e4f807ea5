"""What the nodes tell each other through the meeting's store: keys and messages.

Every message is one of these dataclasses as JSON, its types checked when it is read; nothing is unpickled or evaluated.
Members (started processes) number themselves with a counter and write under ``m/<number>/<sequence>``; the lead (the
process of node 0 that opens the stages) writes ``c/<sequence>``. A member raises ``tick`` after each message.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from distdoctor.facts import NodeFacts
from distdoctor.plan import Plan

PROTOCOL = 1


@dataclass(frozen=True)
class Marker:
    """The doctor's mark on a store: this store is for a check, and for this run."""

    run: str
    token: str
    """Random; whoever connects to one of the doctor's own listeners must show it."""
    version: str
    protocol: int = PROTOCOL


@dataclass(frozen=True)
class Target:
    """An address of a node that the others try to reach, and who would use it."""

    member: int
    key: str
    address: str
    port: int
    use: tuple[str, ...]


@dataclass(frozen=True)
class Event:
    """A member's message: ``hello``; the ``result`` of a stage; ``trouble`` (one rank failed, the others still try);
    ``left`` (it was interrupted)."""

    kind: Literal["hello", "result", "trouble", "left"]
    facts: NodeFacts | None = None
    stage: str = ""
    attempt: int = 0
    ok: bool = True
    error: str = ""
    mesh_port: int | None = None


@dataclass(frozen=True)
class Command:
    """The lead's message: climb a ``stage``; ``skip`` one; ``abort`` the one under way; ``report``: it is there."""

    op: Literal["stage", "skip", "abort", "report"]
    stage: str = ""
    attempt: int = 0
    seconds: float = 0.0
    reason: str = ""
    blocked_by: str | None = None
    world: int = 0
    group_ranks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Member number -> the ranks its processes take in the doctor's own groups (those present, numbered from 0)."""
    ranks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Member number -> the job's ranks of the same processes."""
    node_ranks: dict[str, int] = field(default_factory=dict)
    targets: tuple[Target, ...] = ()
    lead: int = 0
    """The lead's own member number."""
    env: dict[str, dict[str, str | None]] = field(default_factory=dict)
    """Member number -> variables to set (null: unset) in the processes of a trial."""
    parts: int = 0
    """Of a report: how many values it is stored in."""


def marker_key(plan: Plan) -> str:
    """Where the marker is. An agent's store outlives one set of ranks, so there it is kept apart by restart."""
    return f"distdoctor/{plan.run_id}/{plan.restart}/marker" if plan.agent_store else "distdoctor/marker"
