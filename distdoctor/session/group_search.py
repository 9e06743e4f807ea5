"""Smaller groups, where that of all could not be made: which node, or which two nodes together, it is.

Each node with several ranks alone; where all of these pass, pairs of nodes, every node in one pair of each round. A
node that fails with all whom it is paired with, while they pass with others, is the one; two nodes that pass with
others and fail together are that link. With many nodes not all pairs are tried, and of two nodes there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distdoctor.model.bounds import MAX_ROUNDS
from distdoctor.model.cluster import Cluster
from distdoctor.model.facts import SmallerGroup
from distdoctor.model.stages import SEARCH, SECONDS_PER_RANK
from distdoctor.session.inbox import Inbox
from distdoctor.session.rank_assignment import Numbering
from distdoctor.session.stage_opener import StageOpener

Group = tuple[str, ...]
"""Numbers of participants."""


async def search(cluster: Cluster, inbox: Inbox, opener: StageOpener, numbering: Numbering) -> list[SmallerGroup]:
    """The groups that were tried, and how each ended; as many as there is time for."""
    nodes = _by_node(cluster, inbox, numbering)
    found = list[SmallerGroup]()
    keys = {str(one.number): one.facts.key for one in inbox.present}
    for attempt, groups in enumerate(rounds(nodes, numbering), start=1):
        if attempt > MAX_ROUNDS or not opener.time_left:
            break
        ended = await _try(groups, attempt, inbox, opener, numbering)
        found += [SmallerGroup(tuple(keys[one] for one in group), error == "", error) for group, error in ended.items()]
        if any(error and group in nodes for group, error in ended.items()):
            break  # what fails on one node fails with others, too
    return found


def rounds(nodes: Sequence[Group], numbering: Numbering) -> Iterator[list[Group]]:
    """Each node alone, where that is a group at all; then, of three nodes or more, pairs: those of a round side by
    side, as in a round-robin tournament."""
    alone = [node for node in nodes if sum(len(numbering.ranks[one]) for one in node) > 1]
    if alone:
        yield alone
    if len(nodes) < 3:
        return
    circle: list[Group | None] = [*nodes, *[None] * (len(nodes) % 2)]
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        opposite = zip(circle[:half], reversed(circle[half:]), strict=True)
        yield [first + second for first, second in opposite if first is not None and second is not None]
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
        # What a rank says of its own comes before what its peers say of it.
        ended[group] = min(filter(None, errors), key=lambda text: text.startswith("ended after"), default="")
    return ended


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
