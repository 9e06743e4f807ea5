"""Findings and fixes: results of the checks, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # start-up is light: users of findings need no facts
    from distdoctor.model.cluster import Node

Severity = Literal["info", "warn", "fail"]
SEVERITIES: tuple[Severity, ...] = ("info", "warn", "fail")
"""Effect on the planned job: ``fail`` it fails or hangs; ``warn`` it runs, by luck or slower; ``info`` worth knowing.
In rising order."""

NO_GLOO = "the job as planned does not use gloo; one that does would fail"
"""Reason why a finding about gloo is a warning for a job with another backend."""

Blame = Literal["all", "one-of"]
RESTARTS = ("no", "yes", "other-nodes")
"""Benefit of starting the job again as it was."""


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
    """Shell commands to run on those nodes, as root if they need it."""
    unknown: tuple[str, ...] = ()
    """Launch flags with a wrong value, for which the right one is unknown here."""
    verified: bool | None = None
    """True: tried during the run and it helped; False: tried, did not help; None: not tried."""

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
        """Return a remedy for these nodes: nodes, or names of nodes whose facts are not here."""
        several = nodes if isinstance(nodes, Iterable) and not isinstance(nodes, str) else (nodes,)
        return cls(text, _names(several), option, env or {}, flags or {}, tuple(commands), tuple(unknown))


@dataclass(frozen=True)
class Finding:
    """One failure that was found. A root cause has ``because_of`` None.

    A check fills ``summary``, the affected nodes, ``evidence`` and ``fixes``; ``distdoctor.judge.engine`` fills
    ``check``, ``id`` and ``because_of``, and the check's own ``severity``, ``matters`` and ``incomplete`` if the
    finding has none. A check may set ``because_of`` to the cause of this one finding, before its declared ones: a
    pattern of ids, or a milestone that was missed.
    """

    summary: str
    title: str = ""
    nodes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    local_ranks: tuple[int, ...] = ()
    """Ranks of which only the number on their node is known, as in logs."""
    links: tuple[tuple[str, str], ...] = ()
    """(connecting node, target node)."""
    blame: Blame = "all"
    """``one-of``: it is unknown which of the nodes is affected."""
    evidence: tuple[str, ...] = ()
    fixes: tuple[Fix, ...] = ()
    severity: Severity | None = None
    matters: str = ""
    """Reason of a warning: what would happen to which job. Empty if the severity says it all."""
    check: str = ""
    id: str = ""
    because_of: str | None = None
    incomplete: bool = False
    """True if the failure is that something was not seen: such findings alone make the verdict incomplete, not fail."""
    restart: str = ""
    """One of ``RESTARTS``; empty: the check's own."""
    docs_url: str = ""
    """Address of the check's page; empty for a site's own check."""
    of_its_own: bool = False
    """True if nothing that other nodes miss can be its cause, as for a process that a signal ended."""

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
        incomplete: bool = False,
    ) -> Finding:
        """Return the finding on these nodes: nodes, or names of nodes whose facts are not here.

        ``ranks``: None for all ranks that are known to be on them. ``unsure``: it is unknown which of the nodes is
        affected.
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
            incomplete=incomplete,
        )


def _names(nodes: Iterable[Node | str]) -> tuple[str, ...]:
    return tuple(node if isinstance(node, str) else node.name for node in nodes)


@dataclass(frozen=True)
class PossibleCause:
    """Possible cause, if the evidence is not enough for a finding."""

    check: str
    why: str
    """Line that suggests it."""
    against: str
    """Evidence against it, or other causes of the same line."""
    next: str
    """Next observation to get."""
    command: str = ""
    """Command that gets it."""
    title: str = ""
    """The failure in a sentence: the title of the check's page."""


def at_least(severity: Severity | None, floor: Severity) -> bool:
    """Return whether ``severity`` is ``floor`` or graver."""
    return severity is not None and SEVERITIES.index(severity) >= SEVERITIES.index(floor)


def capped(severity: Severity, ceiling: Severity) -> Severity:
    """Return the milder of the two."""
    return SEVERITIES[min(SEVERITIES.index(severity), SEVERITIES.index(ceiling))]
