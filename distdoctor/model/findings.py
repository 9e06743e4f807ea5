"""Findings and fixes: what a check says of the facts, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # start-up is light: who names findings needs no facts
    from distdoctor.model.cluster import Node

Severity = Literal["info", "warn", "fail"]
SEVERITIES: tuple[Severity, ...] = ("info", "warn", "fail")
"""What happens to the planned job: ``fail`` it fails or hangs as planned; ``warn`` it runs, by luck or slower; ``info``
worth knowing. In rising order."""

NO_GLOO = "the job as planned does not use gloo; one that does would fail"
"""Why a finding about gloo is a warning for a job with another backend."""

Blame = Literal["all", "one-of"]
RESTARTS = ("no", "yes", "other-nodes")
"""Whether starting the job again as it was can help."""


@dataclass(frozen=True)
class Fix:
    """One remedy for some nodes. Fixes with equal ``option`` belong together; different options are alternatives."""

    text: str
    nodes: tuple[str, ...] = ()
    option: int = 1
    env: dict[str, str | None] = field(default_factory=dict)
    """Variables to set on those nodes before the launch; None: unset it."""
    flags: dict[str, str | None] = field(default_factory=dict)
    """Changes of the launch line; None: leave the flag out."""
    commands: tuple[str, ...] = ()
    """Shell commands to run on those nodes, as root where they need it."""
    unknown: tuple[str, ...] = ()
    """Launch flags whose value is wrong, and for which the right one is not known here."""
    verified: bool | None = None
    """True: tried on the spot and it helped; False: tried, did not help; None: not tried."""

    @classmethod
    def on(
        cls,
        nodes: Node | str | Iterable[Node | str],
        text: str,
        option: int = 1,
        *,
        env: dict[str, str | None] | None = None,
        flags: dict[str, str | None] | None = None,
        commands: Iterable[str] = (),
        unknown: Iterable[str] = (),
    ) -> Fix:
        """A remedy for these nodes: nodes, or names of nodes whose facts are not here."""
        several = nodes if isinstance(nodes, Iterable) and not isinstance(nodes, str) else (nodes,)
        return cls(text, _names(several), option, env or {}, flags or {}, tuple(commands), tuple(unknown))


@dataclass(frozen=True)
class Finding:
    """One failure that was found. The root cause has ``because_of`` None.

    A check fills ``summary``, whom it blames, ``evidence`` and ``fixes``; ``check``, ``id`` and ``because_of`` are
    filled in by ``distdoctor.judge.engine``, and so are ``severity``, ``matters`` and ``incomplete`` where the check
    leaves them out: with the check's own.
    A check may set ``because_of`` to what this one finding follows from, before what the check declares: a pattern of
    ids, or a milestone that was missed.
    """

    summary: str
    title: str = ""
    nodes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    local_ranks: tuple[int, ...] = ()
    """Ranks of which only the number on their node is known, as logs tell them."""
    links: tuple[tuple[str, str], ...] = ()
    """[who connects, to whom]."""
    blame: Blame = "all"
    """``one-of``: it cannot be told which of the nodes it is."""
    evidence: tuple[str, ...] = ()
    fixes: tuple[Fix, ...] = ()
    severity: Severity | None = None
    matters: str = ""
    """Why a warning is one: what would happen to which job. Empty where the severity says it all."""
    check: str = ""
    id: str = ""
    because_of: str | None = None
    incomplete: bool = False
    """The failure is that something was not seen: such findings alone make the verdict incomplete, not fail."""
    restart: str = ""
    """One of ``RESTARTS``; the check's own where it is empty."""
    of_its_own: bool = False
    """What other nodes miss is no reason for it, as for a process that a signal ended."""

    @classmethod
    def about(
        cls,
        nodes: Iterable[Node | str],
        summary: str,
        *,
        ranks: Iterable[int] | None = None,
        links: Iterable[tuple[str, str]] = (),
        unsure: bool = False,
        evidence: Iterable[str] = (),
        fixes: Iterable[Fix] = (),
        severity: Severity | None = None,
        matters: str = "",
        title: str = "",
        because_of: str | None = None,
    ) -> Finding:
        """The finding that blames these nodes: nodes, or names of nodes whose facts are not here.

        ``ranks``: None for all ranks that are known to be on them. ``unsure``: it is one of the nodes, and it cannot be
        told which.
        """
        blamed = tuple(nodes)
        if ranks is None:
            ranks = (rank for node in blamed if not isinstance(node, str) for rank in node.ranks)
        return cls(
            summary,
            title=title,
            nodes=_names(blamed),
            ranks=tuple(ranks),
            links=tuple(links),
            blame="one-of" if unsure else "all",
            evidence=tuple(evidence),
            fixes=tuple(fixes),
            severity=severity,
            matters=matters,
            because_of=because_of,
        )


def _names(nodes: Iterable[Node | str]) -> tuple[str, ...]:
    return tuple(node if isinstance(node, str) else node.name for node in nodes)


@dataclass(frozen=True)
class Candidate:
    """What it may be where the evidence is not enough for a finding."""

    check: str
    why: str
    """The line that speaks for it."""
    against: str
    """What speaks against it, or what else shows the same."""
    next: str
    """The one thing to get next."""
    command: str = ""
    """The command that gets it."""


def at_least(severity: Severity | None, floor: Severity) -> bool:
    """Return whether ``severity`` is ``floor`` or graver."""
    return severity is not None and SEVERITIES.index(severity) >= SEVERITIES.index(floor)


def capped(severity: Severity, ceiling: Severity) -> Severity:
    """The milder of the two."""
    return SEVERITIES[min(SEVERITIES.index(severity), SEVERITIES.index(ceiling))]
