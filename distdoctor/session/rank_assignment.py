"""Numbering: which ranks each participant's processes take, in the job and among those present."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from distdoctor.model.plan import Plan
from distdoctor.session.participant import Participant


@dataclass(frozen=True)
class Numbering:
    """Number of a participant (as text, for JSON) -> its ranks, one per process."""

    ranks: Mapping[str, tuple[int, ...]]
    """The job's ranks."""
    group_ranks: Mapping[str, tuple[int, ...]]
    """The same processes in the doctor's own groups: those present, numbered from 0."""
    node_ranks: Mapping[str, int]
    world: int
    """How many ranks are present."""


def assign_ranks(present: Sequence[Participant], plan: Plan, own: Participant | None) -> Numbering:
    """The numbering of ``present``, by node 0's ``plan``; ``own`` is node 0."""
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
    """Declared node ranks stay; node 0 takes 0, the others the free ones in the order in which they came."""
    taken = {m.facts.plan.node_rank for m in present}
    free = iter([rank for rank in range(2 * len(present) + 1) if rank not in taken])
    found = {}
    for m in sorted(present, key=lambda m: (m is not own, m.number)):
        declared = m.facts.plan.node_rank
        found[str(m.number)] = declared if declared is not None else next(free)
    return found


def _per_node(present: Sequence[Participant], node_ranks: Mapping[str, int], usual: int) -> dict[int, tuple[int, ...]]:
    """The ranks of each node: counted through in node order, with room for nodes that never came."""
    labels: dict[int, tuple[int, ...]] = {}
    base, previous = 0, -1
    for m in sorted(present, key=lambda m: node_ranks[str(m.number)]):
        size, rank = m.facts.plan.nproc_per_node or 1, node_ranks[str(m.number)]
        base += max(0, rank - previous - 1) * usual
        labels[m.number] = tuple(range(base, base + size))
        base, previous = base + size, rank
    return labels
