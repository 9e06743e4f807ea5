"""Trying a fix on the spot: one that only sets variables that a backend reads when it starts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from distdoctor.judge.engine import Judgement
from distdoctor.model.bounds import MAX_ROUNDS
from distdoctor.model.cluster import Cluster
from distdoctor.model.facts import SmallerGroup, Trial
from distdoctor.model.findings import Finding
from distdoctor.model.stages import SEARCH, SECONDS_PER_RANK, TRIAL, TRIED_AGAIN
from distdoctor.session.leader.inbox import Inbox
from distdoctor.session.leader.stages import Numbering, StageOpener
from distdoctor.session.protocol.trust import TRIED

ATTEMPT = 1
"""The climb of the ladder itself is attempt 0."""


@dataclass(frozen=True)
class Choice:
    """One option of each root cause that has one to try, together: two roots are cured only by both."""

    options: dict[str, int]
    """Check id -> option."""
    env: dict[str, dict[str, str | None]]
    """Node name -> variables."""


def choose(judgement: Judgement) -> Choice | None:
    """The best options to try, or None where there is none or where another root would fail the trial anyway."""
    options = {f.check: option for f in judgement.roots if (option := _option(f)) is not None}
    if not options or any(f.severity == "fail" and f.check not in options for f in judgement.roots):
        return None
    env: dict[str, dict[str, str | None]] = {}
    for finding in judgement.roots:
        for fix in finding.fixes:
            if options.get(finding.check) == fix.option and fix.env:
                for name in fix.nodes or finding.nodes:
                    env.setdefault(name, {}).update(fix.env)
    return Choice(options, env)


def _option(finding: Finding) -> int | None:
    for option in sorted({fix.option for fix in finding.fixes}):
        parts = [fix for fix in finding.fixes if fix.option == option]
        if all(f.env and not f.commands and not f.flags and _tried(f.env) for f in parts):
            return option
    return None


def _tried(env: dict[str, str | None]) -> bool:
    return all(name in TRIED for name in env)


async def try_fixes(
    judgement: Judgement, cluster: Cluster, inbox: Inbox, opener: StageOpener, numbering: Numbering
) -> list[Trial]:
    """Climb gloo and the barrier again with the variables that the root causes' fixes set, where there are any."""
    choice = choose(judgement)
    if choice is None:
        return []
    env = {
        str(one.number): choice.env[node.name]
        for one in inbox.present
        if (node := cluster.by_key.get(one.facts.key)) is not None and node.name in choice.env
    }
    started = time.monotonic()
    await opener.open(TRIAL, numbering, TRIAL.seconds or 0.0, attempt=ATTEMPT, env=env)
    results = [one.results.get((TRIAL.name, ATTEMPT)) for one in inbox.participants.values() if not one.left]
    errors = [result.error for result in results if result is not None and not result.ok]
    passed = not errors and all(result is not None for result in results)
    seconds = round(time.monotonic() - started, 2)
    error = errors[0] if errors else None
    return [
        Trial(check, option, choice.env, TRIED_AGAIN, passed, seconds, error)
        for check, option in choice.options.items()
    ]


# Smaller groups, where that of all could not be made: which node, or which two nodes together, it is; of a node on
# which even its own cannot be made, which GPU, or which two.
#
# Each node with several ranks alone; where all of these pass, pairs of nodes, every node in one pair of each round. A
# node that fails with all whom it is paired with, while they pass with others, is the one; two nodes that pass with
# others and fail together are that link. With many nodes not all pairs are tried, and of two nodes there is one. Of
# two
# that fail together, and each alone does not, the ranks are tried in pairs across them: those of one place with each
# other, as adapters are wired, then each with its partner's neighbour, which is known to work where its own pair did.


T = TypeVar("T")
Group = tuple[str, ...]
"""Numbers of participants."""
APART_SECONDS = 40.0
"""For all ranks of a node, each alone and in pairs."""


async def search(cluster: Cluster, inbox: Inbox, opener: StageOpener, numbering: Numbering) -> list[SmallerGroup]:
    """The groups that were tried, and how each ended; as many as there is time for."""
    nodes = _by_node(cluster, inbox, numbering)
    trials = _Trials(inbox, opener, numbering)
    if len(nodes) == 1:  # its group is the one that failed
        await trials.within(nodes)
        return trials.found
    apart: list[Group] = [] if len(nodes) > 2 else [nodes[0] + nodes[1]]
    for groups in rounds(nodes, numbering):
        ended = await trials.of(groups)
        failed = [group for group, error in ended.items() if error and group in nodes]
        if failed:  # what fails on one node fails with others, too
            await trials.within(failed)
            return trials.found
        apart += [group for group, error in ended.items() if error and not any(set(group) & set(one) for one in apart)]
    await trials.across([tuple(node for node in nodes if set(node) <= set(pair)) for pair in apart])
    return trials.found


class _Trials:
    """Rounds of groups side by side, and how they ended; none where there is no time for it."""

    def __init__(self, inbox: Inbox, opener: StageOpener, numbering: Numbering) -> None:
        self._inbox, self._opener, self._numbering = inbox, opener, numbering
        self._keys = {str(one.number): one.facts.key for one in inbox.present}
        self._attempt = 0
        self.found: list[SmallerGroup] = []

    async def of(self, groups: Sequence[Group], apart: bool = False) -> dict[Group, str]:
        """One round: each group, and its error. ``apart``: of the ranks of one process."""
        if not self._next():
            return {}
        ended = await _try(groups, self._attempt, self._inbox, self._opener, self._numbering)
        for group, error in ended.items():
            ranks = tuple(rank for one in group for rank in self._numbering.ranks[one]) if apart else ()
            self.found.append(SmallerGroup(tuple(self._keys[one] for one in group), error == "", error, ranks))
        return ended

    async def within(self, nodes: Sequence[Group]) -> None:
        """The ranks of each of these nodes, apart: by the process that has them all; else, one each, as groups."""
        whole = {node[0]: place for place, node in enumerate(nodes) if len(node) == 1}
        if any(len(self._numbering.ranks[one]) > 1 for one in whole) and self._next():
            await self._opener.open(
                SEARCH, self._numbering, APART_SECONDS, attempt=self._attempt, groups=whole, apart=True
            )
        several = [node for node in nodes if len(node) > 1]
        ended = await self.of([(one,) for node in several for one in node], apart=True) if several else {}
        if any(ended.values()):
            return
        by_node = [list(round_robin(node)) for node in several]
        for number in range(max(map(len, by_node), default=0)):
            await self.of([pair for pairs in by_node if number < len(pairs) for pair in pairs[number]], apart=True)

    async def across(self, pairs: Sequence[tuple[Group, ...]]) -> None:
        """The ranks of each two nodes, in pairs of one of each."""
        whole = [pair for pair in pairs if all(len(node) == 1 for node in pair)]
        whole = [(a, b) for a, b in whole if min(len(self._numbering.ranks[node[0]]) for node in (a, b)) > 1]
        several = [(a, b) for a, b in pairs if min(len(a), len(b)) > 1]
        for shift in (0, 1):
            passed = True
            if whole and self._next():
                members = {node[0]: place for place, pair in enumerate(whole) for node in pair}
                passed = await self._opener.open(
                    SEARCH, self._numbering, APART_SECONDS / 2, attempt=self._attempt, groups=members, across=shift
                )
            if several:
                ended = await self.of(
                    [(one, b[(i + shift) % len(b)]) for a, b in several for i, one in enumerate(a[: len(b)])],
                    apart=True,
                )
                passed = passed and not any(ended.values())
            if passed:
                break

    def _next(self) -> bool:
        """Return whether there is another round."""
        self._attempt += 1
        return self._attempt <= MAX_ROUNDS and self._opener.time_left


def rounds(nodes: Sequence[Group], numbering: Numbering) -> Iterator[list[Group]]:
    """Each node alone, where that is a group at all; then, of three nodes or more, pairs: those of a round side by
    side, as in a round-robin tournament."""
    alone = [node for node in nodes if sum(len(numbering.ranks[one]) for one in node) > 1]
    if alone:
        yield alone
    if len(nodes) < 3:
        return
    for pairs in round_robin(nodes):
        yield [first + second for first, second in pairs]


def round_robin(items: Iterable[T]) -> Iterator[list[tuple[T, T]]]:
    """Each pair once, and none of them twice in a round."""
    circle: list[T | None] = [*items]
    circle += [None] * (len(circle) % 2)
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        opposite = zip(circle[:half], reversed(circle[half:]), strict=True)
        yield [(first, second) for first, second in opposite if first is not None and second is not None]
        circle = [circle[0], circle[-1], *circle[1:-1]]


def _by_node(cluster: Cluster, inbox: Inbox, numbering: Numbering) -> list[Group]:
    """The participants of each node: one where it was started once per node."""
    number = {one.facts.key: str(one.number) for one in inbox.present if str(one.number) in numbering.ranks}
    groups = (tuple(number[key] for key in node.keys if key in number) for node in cluster.nodes)
    return [group for group in groups if group]


async def _try(
    groups: Sequence[Group], attempt: int, inbox: Inbox, opener: StageOpener, numbering: Numbering
) -> dict[Group, str]:
    """Each group of a round, and the error of one of its ranks; empty where all passed."""
    members = {number: place for place, group in enumerate(groups) for number in group}
    largest = max(sum(len(numbering.ranks[number]) for number in group) for group in groups)
    seconds = (SEARCH.seconds or 0.0) + SECONDS_PER_RANK * largest
    await opener.open(SEARCH, renumbered(numbering, groups), seconds, attempt=attempt, groups=members)
    ended = {}
    for group in groups:
        results = [inbox.participants[int(number)].results.get((SEARCH.name, attempt)) for number in group]
        errors = ["it did not say how it ended" if one is None else "" if one.ok else one.error for one in results]
        ended[group] = first_error(errors)
    return ended


def first_error(errors: Iterable[str]) -> str:
    """Return what a rank says of its own comes before what is said of one that was ended; empty where all are."""
    return min(filter(None, errors), key=lambda text: text.startswith("ended after"), default="")


def renumbered(numbering: Numbering, groups: Sequence[Group]) -> Numbering:
    """With the ranks of each group counted from 0; who is in none keeps its own."""
    own = dict(numbering.group_ranks)
    for group in groups:
        order = sorted((rank, number, place) for number in group for place, rank in enumerate(own[number]))
        renumbered = {number: list(own[number]) for number in group}
        for new, (_, number, place) in enumerate(order):
            renumbered[number][place] = new
        own.update({number: tuple(ranks) for number, ranks in renumbered.items()})
    return Numbering(numbering.ranks, own, numbering.node_ranks, numbering.world)
