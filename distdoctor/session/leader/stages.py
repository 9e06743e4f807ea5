"""Opening of a stage for all: node 0 sends the command, and waits until every participant has ended it or is gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from distdoctor.judge.engine import Judgement
from distdoctor.mesh.listener import addresses_of
from distdoctor.model.addresses import reaches_no_other
from distdoctor.model.bounds import MAX_ROUNDS
from distdoctor.model.cluster import Cluster
from distdoctor.model.facts import ConnectOutcome, SmallerGroup, StageFacts, Trial
from distdoctor.model.facts.node import STOOD_STILL
from distdoctor.model.findings import Finding
from distdoctor.model.plan import Plan
from distdoctor.model.stages import SEARCH, SECONDS_PER_RANK, STAGES, TRIAL, TRIAL_STAGES, Stage
from distdoctor.probes.network.tcp import connect
from distdoctor.session.leader.inbox import OWN, Inbox, Participant
from distdoctor.session.protocol.messages import Command
from distdoctor.session.protocol.trust import TRIED

LEAST_SECONDS = 2.0
"""Least seconds of ``--timeout`` left to open a stage: with less it would fail for lack of time, which is no fault."""
LATE_SECONDS = 4.0
"""Seconds after its deadline in which results of a stage may still arrive."""


class StageOpener:
    """Opens stages until the run's time is over, at ``deadline`` (of the monotonic clock)."""

    def __init__(self, inbox: Inbox, deadline: float) -> None:
        self._inbox, self._deadline = inbox, deadline

    @property
    def time_left(self) -> bool:
        """Return whether there is time for a further stage."""
        return self._deadline - time.monotonic() >= LEAST_SECONDS

    def extend(self, seconds: float) -> None:
        """Let the run last up to ``seconds`` from now, less the time in which the last results arrive."""
        self._deadline = max(self._deadline, time.monotonic() + seconds - LATE_SECONDS)

    async def open(self, stage: Stage, numbering: Numbering, seconds: float, **more: Any) -> bool:
        """Return whether ``stage`` succeeded everywhere within ``seconds``; ``more``: further fields of the command."""
        command = Command(
            "stage",
            stage.name,
            seconds=min(seconds, max(self._deadline - time.monotonic(), LEAST_SECONDS)),
            world=numbering.world,
            ranks=dict(numbering.ranks),
            group_ranks=dict(numbering.group_ranks),
            node_ranks=dict(numbering.node_ranks),
            **more,
        )
        await self._inbox.send(command)
        return await self._ended(stage, command)

    async def _ended(self, stage: Stage, command: Command) -> bool:
        mark = (command.stage, command.attempt)
        began = time.monotonic()
        end, aborted = began + command.seconds + LATE_SECONDS, False
        everyone = self._inbox.participants.values()
        waiting = [
            participant for participant in everyone if str(participant.number) in command.ranks and not participant.lost
        ]
        heartbeats = Heartbeats(self._inbox)
        while True:
            await self._inbox.poll()
            open_ = [
                participant
                for participant in waiting
                if mark not in participant.results and not (participant.left or participant.lost)
            ]
            await heartbeats.mark_lost(open_)
            failed = any(
                mark in participant.troubled
                or participant.left
                or participant.lost
                or (mark in participant.results and not participant.results[mark].ok)
                for participant in waiting
            )
            if failed and not aborted and open_ and stage.ends_everywhere:
                # The others would wait for their full timeout.
                aborted = True
                await self._inbox.send(Command("abort", command.stage))
                end = min(end, time.monotonic() + LATE_SECONDS)
            if not open_ or time.monotonic() > end:
                break
            await asyncio.sleep(0.01)
        there = await asyncio.gather(*(listens(participant) for participant in open_))
        for participant, still in zip(open_, there, strict=True):
            participant.lost, participant.there = True, still
        for participant in waiting:
            if participant.lost and participant.there and stage.name in STAGES:
                participant.stalled = StageFacts(stage.name, "error", round(time.monotonic() - began, 3), STOOD_STILL)
        return not failed and not open_


# Liveness of the participants, as node 0 sees it.


SILENT_SECONDS = 6.0
"""Silence after which a participant is suspect: six of its heartbeats."""
GONE_SECONDS = 4.0
"""Silence after which it is gone if its kernel refuses a connection to its listener: the listener ends with its
process."""
STALLED_SECONDS = 15.0
"""Silence after which it is gone although its listener exists: it was stopped, or gets no processor, and may go on."""
KNOCK_SECONDS = 1.0
"""Limit for its kernel to accept a connection."""


class Heartbeats:
    """Watches the participants: a killed process cannot say so, and the others would wait for it."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._looked = 0.0
        self._beats: dict[int, tuple[int, float]] = {}

    async def mark_lost(self, participants: Sequence[Participant]) -> None:
        """Mark those of ``participants`` as lost that have shown nothing for SILENT_SECONDS and are gone."""
        now = time.monotonic()
        if now - self._looked < 1.0:
            return
        self._looked = now
        silent = []
        for participant in participants:
            if participant.number == OWN:
                continue
            beat = await self._inbox.number(self._inbox.keys.beat(participant.number))
            before, since = self._beats.get(participant.number, (-1, now))
            self._beats[participant.number] = (beat, now if beat != before else since)
            if beat == before and now - since > GONE_SECONDS:
                silent.append((participant, now - since))
        answers = await asyncio.gather(*(connect_to_listener(participant) for participant, _ in silent))
        for (participant, seconds), answer in zip(silent, answers, strict=True):
            participant.there = answer == "open"
            if answer == "refused":
                participant.lost = True
            else:
                participant.lost = seconds > (STALLED_SECONDS if participant.there else SILENT_SECONDS)


async def listens(participant: Participant) -> bool:
    """Return whether the listener of a participant still exists."""
    return await connect_to_listener(participant) == "open"


async def connect_to_listener(participant: Participant) -> ConnectOutcome | None:
    """Return the result of a connection to its listener: a kernel accepts for a stopped process, and refuses for an
    ended one.

    None if it has no listener.
    """
    address = next((address for _, address in addresses_of(participant.facts, nccl=False)), None)
    # Its address is its own claim: nobody is to learn by it what listens on this host's loopback.
    if participant.mesh_port is None or address is None or reaches_no_other(address):
        return None
    return (await connect(address, participant.mesh_port, KNOCK_SECONDS)).outcome


# Numbering: the ranks of each participant's processes, in the job and among those present.


@dataclass(frozen=True)
class Numbering:
    """Number of a participant (as text, for JSON) -> its ranks, one per process."""

    ranks: Mapping[str, tuple[int, ...]]
    """Ranks in the job."""
    group_ranks: Mapping[str, tuple[int, ...]]
    """Ranks of the same processes in the groups of the check: those present, numbered from 0."""
    node_ranks: Mapping[str, int]
    world: int
    """Number of ranks that are present."""


def assign_ranks(present: Sequence[Participant], plan: Plan, own: Participant | None) -> Numbering:
    """Return the numbering of ``present`` by node 0's ``plan``; ``own`` is node 0."""
    node_ranks: dict[str, int] = {}
    if plan.started == "rank":
        labels: dict[int, tuple[int, ...]] = {m.number: (m.facts.plan.rank or 0,) for m in present}
    else:
        node_ranks = _node_ranks(present, own)
        labels = _per_node(present, node_ranks, plan.nproc_per_node or 1)
    ordered = sorted((label, number, place) for number, ls in labels.items() for place, label in enumerate(ls))
    group: dict[int, list[int]] = {number: [0] * len(ls) for number, ls in labels.items()}
    for group_rank, (_, number, place) in enumerate(ordered):
        group[number][place] = group_rank
    return Numbering(
        {str(number): ls for number, ls in labels.items()},
        {str(number): tuple(places) for number, places in group.items()},
        node_ranks,
        len(ordered),
    )


def _node_ranks(present: Sequence[Participant], own: Participant | None) -> dict[str, int]:
    """Return the node ranks: declared ones stay; node 0 takes 0, the others the free ones in the order of joining."""
    taken = {m.facts.plan.node_rank for m in present}
    free = iter([rank for rank in range(2 * len(present) + 1) if rank not in taken])
    ranks = {}
    for m in sorted(present, key=lambda m: (m is not own, m.number)):
        declared = m.facts.plan.node_rank
        ranks[str(m.number)] = declared if declared is not None else next(free)
    return ranks


def _per_node(present: Sequence[Participant], node_ranks: Mapping[str, int], usual: int) -> dict[int, tuple[int, ...]]:
    """Return the ranks of each node, counted in node order, with room for nodes that did not join."""
    labels: dict[int, tuple[int, ...]] = {}
    base, previous = 0, -1
    for m in sorted(present, key=lambda m: node_ranks[str(m.number)]):
        size, rank = m.facts.plan.nproc_per_node or 1, node_ranks[str(m.number)]
        base += max(0, rank - previous - 1) * usual
        labels[m.number] = tuple(range(base, base + size))
        base, previous = base + size, rank
    return labels


# Trial of a fix during the run: it sets variables that a backend reads when it starts.


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
        apart += [
            group for group, error in ended.items() if error and not any(set(group) & set(other) for other in apart)
        ]
    await trials.across([tuple(node for node in nodes if set(node) <= set(pair)) for pair in apart])
    return trials.found


class _Trials:
    """Rounds of groups side by side, and their results; empty if time is up."""

    def __init__(self, inbox: Inbox, opener: StageOpener, numbering: Numbering) -> None:
        self._inbox, self._opener, self._numbering = inbox, opener, numbering
        self._keys = {str(member.number): member.facts.key for member in inbox.present}
        self._attempt = 0
        self.found: list[SmallerGroup] = []

    async def of(self, groups: Sequence[Group], apart: bool = False) -> dict[Group, str]:
        """Run one round. Return each group's error. ``apart``: groups of the ranks of one process."""
        if not self._next():
            return {}
        ended = await _try_round(groups, self._attempt, self._inbox, self._opener, self._numbering)
        for group, error in ended.items():
            ranks = tuple(rank for node in group for rank in self._numbering.ranks[node]) if apart else ()
            self.found.append(SmallerGroup(tuple(self._keys[node] for node in group), error == "", error, ranks))
        return ended

    async def within(self, nodes: Sequence[Group]) -> None:
        """Try the ranks of each of these nodes apart: by the process that has them all; else, one each, as groups."""
        whole = {node[0]: place for place, node in enumerate(nodes) if len(node) == 1}
        if any(len(self._numbering.ranks[node]) > 1 for node in whole) and self._next():
            await self._opener.open(
                SEARCH, self._numbering, APART_SECONDS, attempt=self._attempt, groups=whole, apart=True
            )
        several = [node for node in nodes if len(node) > 1]
        ended = await self.of([(place,) for node in several for place in node], apart=True) if several else {}
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
                    [(place, b[(i + shift) % len(b)]) for a, b in several for i, place in enumerate(a[: len(b)])],
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
    alone = [node for node in nodes if sum(len(numbering.ranks[place]) for place in node) > 1]
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
    number = {member.facts.key: str(member.number) for member in inbox.present if str(member.number) in numbering.ranks}
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
        errors = [
            "it did not say how it ended" if result is None else "" if result.ok else result.error for result in results
        ]
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
