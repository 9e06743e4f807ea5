"""Trial of a fix during the run: it sets variables that a backend reads when it starts."""

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
from distdoctor.model.stages import SEARCH, SECONDS_PER_RANK, TRIAL, TRIAL_STAGES
from distdoctor.session.leader.inbox import Inbox
from distdoctor.session.leader.stages import Numbering, StageOpener
from distdoctor.session.protocol.trust import TRIED

ATTEMPT = 1
"""Number of a trial; the first run of the stages is attempt 0."""


@dataclass(frozen=True)
class Choice:
    """One fix option of each root cause that has one to try, applied together: two root causes need both fixes."""

    options: dict[str, int]
    """Check id -> index of the option."""
    env: dict[str, dict[str, str | None]]
    """Node name -> variables."""


def choose(judgement: Judgement) -> Choice | None:
    """Return the best options to try; None if there is none, or if another root cause would fail the trial anyway."""
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
        if all(f.env and not f.commands and not f.flags and _settable(f.env) for f in parts):
            return option
    return None


def _settable(env: dict[str, str | None]) -> bool:
    return all(name in TRIED for name in env)


async def try_fixes(
    judgement: Judgement, cluster: Cluster, inbox: Inbox, opener: StageOpener, numbering: Numbering
) -> list[Trial]:
    """Run gloo and the barrier again with the variables that the fixes of the root causes set."""
    choice = choose(judgement)
    if choice is None:
        return []
    env = {
        str(participant.number): choice.env[node.name]
        for participant in inbox.present
        if (node := cluster.by_key.get(participant.facts.key)) is not None and node.name in choice.env
    }
    started = time.monotonic()
    await opener.open(TRIAL, numbering, TRIAL.seconds or 0.0, attempt=ATTEMPT, env=env)
    results = [
        participant.results.get((TRIAL.name, ATTEMPT))
        for participant in inbox.participants.values()
        if not participant.left
    ]
    errors = [result.error for result in results if result is not None and not result.ok]
    passed = not errors and all(result is not None for result in results)
    seconds = round(time.monotonic() - started, 2)
    error = errors[0] if errors else None
    return [
        Trial(check, option, choice.env, TRIAL_STAGES, passed, seconds, error)
        for check, option in choice.options.items()
    ]


# Search in smaller groups after the group of all failed: it finds the node or link, and on one node the GPU or pair.
#
# Each node with several ranks is tried alone; if all of these pass, pairs of nodes, every node in one pair of each
# round. A node that fails with all its partners, while they pass with others, is the cause; two nodes that pass with
# others and fail together are that link. With many nodes, not all pairs are tried. Of two nodes that fail together and
# pass alone, ranks are tried in pairs across them: those of equal index, as adapters are wired, then each with its
# partner's neighbour, which is known to work if its own pair did.


T = TypeVar("T")
Group = tuple[str, ...]
"""Numbers of participants."""
APART_SECONDS = 40.0
"""Limit for all ranks of a node, each alone and in pairs."""


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
        if failed:  # a failure within one node shows in its pairs, too
            await trials.within(failed)
            return trials.found
        apart += [group for group, error in ended.items() if error and not any(set(group) & set(one) for one in apart)]
    await trials.across([tuple(node for node in nodes if set(node) <= set(pair)) for pair in apart])
    return trials.found


class _Trials:
    """Rounds of groups side by side, and their results; empty if time is up."""

    def __init__(self, inbox: Inbox, opener: StageOpener, numbering: Numbering) -> None:
        self._inbox, self._opener, self._numbering = inbox, opener, numbering
        self._keys = {str(one.number): one.facts.key for one in inbox.present}
        self._attempt = 0
        self.found: list[SmallerGroup] = []

    async def of(self, groups: Sequence[Group], apart: bool = False) -> dict[Group, str]:
        """Run one round. Return each group's error. ``apart``: groups of the ranks of one process."""
        if not self._next():
            return {}
        ended = await _try_round(groups, self._attempt, self._inbox, self._opener, self._numbering)
        for group, error in ended.items():
            ranks = tuple(rank for one in group for rank in self._numbering.ranks[one]) if apart else ()
            self.found.append(SmallerGroup(tuple(self._keys[one] for one in group), error == "", error, ranks))
        return ended

    async def within(self, nodes: Sequence[Group]) -> None:
        """Try the ranks of each of these nodes apart: by the process that has them all; else, one each, as groups."""
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
        """Try the ranks of each two nodes, in pairs of one of each."""
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
        """Return whether there is time for another round."""
        self._attempt += 1
        return self._attempt <= MAX_ROUNDS and self._opener.time_left


def rounds(nodes: Sequence[Group], numbering: Numbering) -> Iterator[list[Group]]:
    """Yield each node alone, if it has several ranks; then, of three nodes or more, pairs, as in a round-robin
    tournament."""
    alone = [node for node in nodes if sum(len(numbering.ranks[one]) for one in node) > 1]
    if alone:
        yield alone
    if len(nodes) < 3:
        return
    for pairs in round_robin(nodes):
        yield [first + second for first, second in pairs]


def round_robin(items: Iterable[T]) -> Iterator[list[tuple[T, T]]]:
    """Yield rounds that hold each pair once, and no item twice in a round."""
    circle: list[T | None] = [*items]
    circle += [None] * (len(circle) % 2)
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        opposite = zip(circle[:half], reversed(circle[half:]), strict=True)
        yield [(first, second) for first, second in opposite if first is not None and second is not None]
        circle = [circle[0], circle[-1], *circle[1:-1]]


def _by_node(cluster: Cluster, inbox: Inbox, numbering: Numbering) -> list[Group]:
    """Return the participants of each node: one if the check was started once per node."""
    number = {one.facts.key: str(one.number) for one in inbox.present if str(one.number) in numbering.ranks}
    groups = (tuple(number[key] for key in node.keys if key in number) for node in cluster.nodes)
    return [group for group in groups if group]


async def _try_round(
    groups: Sequence[Group], attempt: int, inbox: Inbox, opener: StageOpener, numbering: Numbering
) -> dict[Group, str]:
    """Try the groups of one round. Return the error of one rank of each group; empty if all passed."""
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
    """Return the error of a rank itself before that of a rank that was ended; empty if all are empty."""
    return min(filter(None, errors), key=lambda text: text.startswith("ended after"), default="")


def renumbered(numbering: Numbering, groups: Sequence[Group]) -> Numbering:
    """Return the numbering with the ranks of each group counted from 0; participants in no group keep theirs."""
    own = dict(numbering.group_ranks)
    for group in groups:
        order = sorted((rank, number, place) for number in group for place, rank in enumerate(own[number]))
        renumbered = {number: list(own[number]) for number in group}
        for new, (_, number, place) in enumerate(order):
            renumbered[number][place] = new
        own.update({number: tuple(ranks) for number, ranks in renumbered.items()})
    return Numbering(numbering.ranks, own, numbering.node_ranks, numbering.world)
