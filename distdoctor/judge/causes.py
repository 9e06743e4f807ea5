"""Causes: links from each finding to its root cause. Pure; knows no check by its name.

A check names the milestone that its failure prevents (``PREVENTS``) and the one without which it is a symptom
(``SYMPTOM_OF``): a finding follows from whatever prevents that milestone or an earlier one, on any node, or on its own
node if each node reaches the milestone by itself. In addition a check may name exceptions (``FOLLOWS``,
``FOLLOWS_ANYWHERE``): patterns of ids, or a milestone for everything that prevents it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from distdoctor.judge.catalog import Check
from distdoctor.model.findings import Finding, at_least
from distdoctor.model.stages import ALL_STAGES, EACH_FOR_ITSELF, MILESTONES, joint, milestone_index, together

_OF_LINKS = {stage.name for stage in ALL_STAGES if stage.links}


def linked(findings: Sequence[Finding], checks: Mapping[str, Check]) -> list[Finding]:
    """Return the findings in the same order, each with its root cause by the declarations of ``checks``."""
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
        # Checks that name each other as their cause both stay root causes.
        found.append(replace(finding, because_of=None if root == finding.id else root))
    return found


def touched(finding: Finding) -> set[str]:
    """Return the nodes that a finding blames, and those at both ends of its links."""
    return {*finding.nodes, *(node for link in finding.links for node in link)}


def is_symptom(check: Check, cause: Check) -> bool:
    """Return whether the failure of ``check`` is seen wherever ``cause`` occurred.

    If this holds in both directions, as for two symptoms of one milestone, neither causes the other. A missing
    observation, such as a node that did not join, explains no failure of the nodes that did join.
    """
    return check.id != cause.id and not cause.incomplete and _behind(check, cause) and not _behind(cause, check)


def _behind(check: Check, cause: Check) -> bool:
    return bool(check.symptom_of and cause.prevents) and milestone_index(cause.prevents) <= milestone_index(
        check.symptom_of
    )


def matches_cause(cause: Check, pattern: str) -> bool:
    """Return whether ``pattern``, an id pattern or a milestone, matches ``cause``."""
    return cause.prevents == pattern if pattern in MILESTONES else fnmatchcase(cause.id, pattern)


def _cause(finding: Finding, findings: Sequence[Finding], checks: Mapping[str, Check]) -> Finding | None:
    check, nodes = checks[finding.check], touched(finding)
    possible = [other for other in findings if _possible(other, finding, checks)]
    if finding.of_its_own:
        possible = [other for other in possible if nodes & {*other.nodes}]
    # Findings on the same nodes come first: of two failures of one kind, the node's own is the cause.
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
            [o for o in possible if _affects(o, finding, checks) and not _of_others(o, finding, findings)],
            check,
            checks,
        ),
    ):
        for other in candidates:
            return other
    return None


def _possible(other: Finding, finding: Finding, checks: Mapping[str, Check]) -> bool:
    """Return whether ``other`` can cause ``finding``: a harmless finding causes no failure, and no two cause each
    other."""
    named = other.because_of and matches_cause(checks[finding.check], other.because_of)
    if other.id == finding.id or named or _are_independent_links(other, finding, checks):
        return False
    return at_least(other.severity, finding.severity or "info")


def _are_independent_links(one: Finding, other: Finding, checks: Mapping[str, Check]) -> bool:
    """Return whether these are two independent failures of links: no common node to blame, no common link.

    One host's firewall does not explain another's. If the faulty end is unknown, this holds for links between nodes
    that joined: a node that did not join may be one of the blamed ones under another name.
    """
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
    """Return whether ``other`` may explain ``finding``: not if ``finding`` is sure that the fault is on its own nodes'
    side, whatever the node at the other end does."""
    sure = check.prevents in EACH_FOR_ITSELF and finding.blame == "all" and finding.nodes and other.nodes
    return not sure or bool({*finding.nodes} & {*other.nodes})


def _preventing(others: Sequence[Finding], check: Check, checks: Mapping[str, Check]) -> list[Finding]:
    """Return the findings of which ``check`` is a symptom, the likeliest first.

    Findings that keep a node from joining come in order of milestones; the others in reverse order, since a node that
    got so far has passed the earlier ones.
    """

    def order(other: Finding) -> tuple[bool, int]:
        prevents = checks[other.check].prevents
        if together(check.symptom_of):
            return True, -milestone_index(prevents)
        return prevents not in EACH_FOR_ITSELF, milestone_index(prevents)

    return sorted((other for other in others if is_symptom(check, checks[other.check])), key=order)


def _of_others(other: Finding, finding: Finding, findings: Sequence[Finding]) -> bool:
    """Return whether ``other`` explains only absences that other findings of the same check report, and nothing about
    the nodes of this one."""
    if not finding.incomplete or not other.nodes or set(other.nodes) & set(finding.nodes):
        return False
    other_nodes = {
        node for one in findings if one.check == finding.check and one.id != finding.id for node in one.nodes
    }
    return other.blame == "all" and set(other.nodes) <= other_nodes


def _affects(other: Finding, finding: Finding, checks: Mapping[str, Check]) -> bool:
    """Return whether a failure on another node affects these nodes, too: not if each node reaches the milestone by
    itself."""
    cause, check = checks[other.check], checks[finding.check]
    if not cause.prevents or not check.symptom_of or not joint(cause.prevents, check.symptom_of):
        return False
    return check.prevents not in EACH_FOR_ITSELF or not (finding.nodes and other.nodes)
