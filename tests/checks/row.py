"""The tables of a check's test file: the faults that it finds, what only looks like them, and what cures them.

A test file of a check, ``tests/checks/<stage>/test_<check>.py``, has the builders of its clusters, its tables, and one
line for each table that makes a test of it: ``test_found = found(CHECK, ROWS)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from distdoctor.model.facts import NodeFacts
from distdoctor.model.findings import Finding, Fix
from tests.facts_builder import judged

Facts = tuple[NodeFacts, ...]
Test = Callable[[Any], None]

BOTH = ("host0", "host1")
THREE = ("host0", "host1", "host2")
NODES_MISSING = "store/nodes-missing"


@dataclass(frozen=True)
class Row:
    """A cluster with one fault, and what must be said of it."""

    name: str
    facts: Callable[[], Facts]
    nodes: tuple[str, ...]
    severity: str = "fail"
    blame: str = "all"
    together: bool = False
    """The nodes met, so that each live report is the whole one: none of them judges alone."""
    alone: tuple[str, ...] = ()
    """Further evidence of a node that knows nothing of the others."""


@dataclass(frozen=True)
class LookAlike:
    """A cluster that looks like the fault and has it not."""

    name: str
    facts: Callable[[], Facts]
    instead: str | None = None
    """The check that it is a row of; None: it is healthy, and no check has anything to say."""


@dataclass(frozen=True)
class Cure:
    """Changes of the first option of the root cause's fixes."""

    name: str
    facts: Callable[[], Facts]
    changes: dict[str, dict[str, Any]]
    """Node -> ``env``, ``flags`` and ``commands``, those that are not empty."""
    only: bool = False
    """There is no other option."""
    unsaid: tuple[str, ...] = ()
    """Names that the finding may not contain, in upper or lower case."""


def on_each(nodes: tuple[str, ...], change: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The same change on each of the nodes."""
    return dict.fromkeys(nodes, change)


def _name(entry: Row | LookAlike | Cure) -> str:
    return entry.name


def root(*facts: NodeFacts) -> Finding:
    """The one root that these facts have."""
    (one,) = judged(*facts).roots
    return one


def fixes(*facts: NodeFacts) -> tuple[Fix, ...]:
    """The fixes of the one root."""
    return root(*facts).fixes


def first(*facts: NodeFacts) -> tuple[Fix, ...]:
    """Its first option: one fix, or one for each of some nodes."""
    return tuple(fix for fix in fixes(*facts) if fix.option == 1)


def found(check: str, rows: Sequence[Row]) -> Test:
    """A test of each row: exactly this root, over all facts and from each node's alone, with evidence and fixes."""

    @pytest.mark.parametrize("row", rows, ids=_name)
    def test(row: Row) -> None:
        one = _is_the_root(check, row)
        _says_what_was_seen_and_what_to_do(one)
        if not row.together:
            _from_each_node_alone(check, row)

    return test


def _is_the_root(check: str, row: Row) -> Finding:
    result = judged(*row.facts())
    assert [(f.id, f.nodes, f.severity, f.blame) for f in result.roots] == [(check, row.nodes, row.severity, row.blame)]
    assert all(f.because_of == check for f in result.findings[1:])
    return result.roots[0]


def _says_what_was_seen_and_what_to_do(one: Finding) -> None:
    """Evidence and a fix; the first option is not empty."""
    assert one.evidence and one.fixes and one.title
    assert one.summary.endswith((".", "error", "closed by peer", "text")), one.summary
    assert {fix.option for fix in one.fixes} == set(range(1, max(fix.option for fix in one.fixes) + 1))
    assert all("None" not in line for line in (one.summary, *one.evidence, *(fix.text for fix in one.fixes)))


def _from_each_node_alone(check: str, row: Row) -> None:
    """Each names it, or that others did not come."""
    for one in row.facts():
        result = judged(one)
        assert {f.id for f in result.roots} <= {check, NODES_MISSING, *row.alone}, one.identity.hostname
        # A node that met the others leaves the roll call to node 0.
        guest = one.meeting is not None and one.meeting.joined and not one.meeting.hosted and not one.meeting.host_lost
        assert len(result.roots) == (0 if guest else 1), one.identity.hostname


def left_alone(check: str, look_alikes: Sequence[LookAlike]) -> Test:
    """A test of each look-alike: no finding at all where it is healthy, else the root that it has and none of this."""

    @pytest.mark.parametrize("look_alike", look_alikes, ids=_name)
    def test(look_alike: LookAlike) -> None:
        result = judged(*look_alike.facts())
        if look_alike.instead is None:
            assert [(f.id, f.summary) for f in result.findings] == []
        else:
            assert [f.id for f in result.roots] == [look_alike.instead]
            assert check not in {f.id for f in result.findings}

    return test


def cured(check: str, cures: Sequence[Cure]) -> Test:
    """A test of each cure: the root is this check's, and its first option changes this, on these nodes."""

    @pytest.mark.parametrize("cure", cures, ids=_name)
    def test(cure: Cure) -> None:
        one = root(*cure.facts())
        assert one.id == check
        assert _changes(one) == cure.changes
        assert not cure.only or {fix.option for fix in one.fixes} == {1}
        said = " ".join((one.title, one.summary, *one.evidence, *(fix.text for fix in one.fixes))).lower()
        assert not [word for word in cure.unsaid if word.lower() in said]

    return test


def _changes(one: Finding) -> dict[str, dict[str, Any]]:
    """Node -> what the first option changes on it."""
    changes: dict[str, dict[str, Any]] = {}
    for fix in one.fixes:
        if fix.option == 1:
            each = {"env": fix.env, "flags": fix.flags, "commands": fix.commands}
            for node in fix.nodes:
                changes.setdefault(node, {}).update({kind: value for kind, value in each.items() if value})
    return changes
