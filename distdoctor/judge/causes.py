"""Causes: which finding follows from which. Pure; knows no check by its name.

A check says which milestone its failure prevents (``PREVENTS``). What one sees is a symptom (``SYMPTOM_OF``) where an
earlier milestone was missed already: such a finding follows from what prevents that milestone or one before it, on any
node, or on its own where each node reaches the milestone by itself. Beside that a check may name exceptions
(``FOLLOWS``, ``FOLLOWS_ANYWHERE``): patterns of ids, or a milestone for all that prevents just that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from distdoctor.judge.catalog import Check
from distdoctor.model.findings import Finding, at_least
from distdoctor.model.stages import EACH_FOR_ITSELF, LADDER, MILESTONES, joint, place, together

_OF_LINKS = {stage.name for stage in LADDER if stage.links}


def linked(findings: Sequence[Finding], checks: Mapping[str, Check]) -> list[Finding]:
    """The findings, each with the root that it follows from, by what the ``checks`` declare; in the same order."""
    direct: dict[str, str] = {}
    for finding in findings:
        cause = _cause(finding, findings, checks)
        if cause is not None:
            direct[finding.id] = cause.id
    found = []
    for finding in findings:
        root, seen = direct.get(finding.id), {finding.id}
        while root in direct and root not in seen:
            seen.add(root)
            root = direct[root]
        # Checks that name each other as their cause: each of them stays a root.
        found.append(replace(finding, because_of=None if root == finding.id else root))
    return found


def touched(finding: Finding) -> set[str]:
    """The nodes that a finding blames, and those at both ends of its links."""
    return {*finding.nodes, *(node for link in finding.links for node in link)}


def is_symptom(check: Check, cause: Check) -> bool:
    """Return whether what ``check`` sees is seen wherever ``cause`` did its harm.

    Of two of which this would hold both ways, as of two symptoms of one milestone, neither is the other's; and what was
    only not seen, as a node that never came, is no reason why something fails among those who did come."""
    return check.id != cause.id and not cause.incomplete and _behind(check, cause) and not _behind(cause, check)


def _behind(check: Check, cause: Check) -> bool:
    return bool(check.symptom_of and cause.prevents) and place(cause.prevents) <= place(check.symptom_of)


def matches_cause(cause: Check, pattern: str) -> bool:
    """Return whether ``pattern``, an id pattern or a milestone, means ``cause``."""
    return cause.prevents == pattern if pattern in MILESTONES else fnmatchcase(cause.id, pattern)


def _cause(finding: Finding, findings: Sequence[Finding], checks: Mapping[str, Check]) -> Finding | None:
    check, nodes = checks[finding.check], touched(finding)
    possible = [other for other in findings if _possible(other, finding, checks)]
    if finding.of_its_own:
        possible = [other for other in possible if nodes & {*other.nodes}]
    # What touches the same nodes comes first: of two failures of one kind, a node follows from its own.
    near = [other for other in possible if nodes & touched(other)]
    own = (finding.because_of,) if finding.because_of else ()
    declared = (*check.follows, *check.follows_anywhere)
    for candidates in (
        _named(near, own, checks),
        _named(possible, own, checks),
        _named(near, declared, checks),
        _preventing([other for other in near if _not_its_own(finding, check, other)], check, checks),
        _named(possible, check.follows_anywhere, checks),
        _preventing(
            [o for o in possible if _felt_there(o, finding, checks) and not _of_others(o, finding, findings)],
            check,
            checks,
        ),
    ):
        for other in candidates:
            return other
    return None


def _possible(other: Finding, finding: Finding, checks: Mapping[str, Check]) -> bool:
    """Return what makes the job fail cannot come from what would not; and no two are each other's cause."""
    named = other.because_of and matches_cause(checks[finding.check], other.because_of)
    if other.id == finding.id or named or _two_ways(other, finding, checks):
        return False
    return at_least(other.severity, finding.severity or "info")


def _two_ways(one: Finding, other: Finding, checks: Mapping[str, Check]) -> bool:
    """Return whether these are two failures of links with neither a node to blame nor a link in common: what one
    host keeps out is no reason why another keeps out others. Where it cannot be told whose fault one is, that holds
    for links that were tried between nodes which have met: who never came may be one of those that are blamed, by
    another name."""
    met = {checks[finding.check].stage for finding in (one, other)} <= _OF_LINKS
    if not met and (one.blame != "all" or other.blame != "all"):
        return False
    if set(one.nodes) & set(other.nodes):
        return False
    ends = [{frozenset(link) for link in finding.links} for finding in (one, other)]
    return all(ends) and not ends[0] & ends[1]


def _named(others: Sequence[Finding], patterns: Sequence[str], checks: Mapping[str, Check]) -> Iterator[Finding]:
    for pattern in patterns:
        yield from (other for other in others if matches_cause(checks[other.check], pattern))


def _not_its_own(finding: Finding, check: Check, other: Finding) -> bool:
    """Return whether what ``other`` blames may be why: not where ``finding`` is sure that it is its own nodes' way,
    which they miss whatever the node at the other end does."""
    sure = check.prevents in EACH_FOR_ITSELF and finding.blame == "all" and finding.nodes and other.nodes
    return not sure or bool({*finding.nodes} & {*other.nodes})


def _preventing(others: Sequence[Finding], check: Check, checks: Mapping[str, Check]) -> list[Finding]:
    """Those of which ``check`` is a symptom, the likeliest first. Of what keeps a node from meeting the others that is
    its own way, then what comes first; after that what comes last, for who got so far has the rest behind it."""

    def order(other: Finding) -> tuple[bool, int]:
        prevents = checks[other.check].prevents
        if together(check.symptom_of):
            return True, -place(prevents)
        return prevents not in EACH_FOR_ITSELF, place(prevents)

    return sorted((other for other in others if is_symptom(check, checks[other.check])), key=order)


def _of_others(other: Finding, finding: Finding, findings: Sequence[Finding]) -> bool:
    """Return whether ``other`` says why those are absent whom further findings of the same check tell of, and them
    alone: of the nodes of this one it says nothing."""
    if not finding.incomplete or not other.nodes or set(other.nodes) & set(finding.nodes):
        return False
    told = {node for one in findings if one.check == finding.check and one.id != finding.id for node in one.nodes}
    return other.blame == "all" and set(other.nodes) <= told


def _felt_there(other: Finding, finding: Finding, checks: Mapping[str, Check]) -> bool:
    """Return whether what another node misses is felt here, too: not what each node reaches by itself, by its own
    way."""
    cause, check = checks[other.check], checks[finding.check]
    if not cause.prevents or not check.symptom_of or not joint(cause.prevents, check.symptom_of):
        return False
    return check.prevents not in EACH_FOR_ITSELF or not (finding.nodes and other.nodes)
