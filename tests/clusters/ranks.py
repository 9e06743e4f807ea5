"""Clusters with a rank that is stopped or gone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import RankStage
from tests.checks.row import Facts
from tests.facts_builder import failing, healthy


def ended(stage: str, number: int, *, of: int = 2, died: str | None = None, state: str | None = None) -> Facts:
    """The first rank of one node is stopped, or gone; the others report what follows from that, or are ended."""
    facts = []
    for index, one in enumerate(healthy(of)):
        if index == 0 and stage == "barrier" and number:
            text = f"RuntimeError: [Rank 0]: Ranks {2 * number} failed to pass monitoredBarrier in 8000 ms"
            one = failing(one, stage, text, missing=[2 * number])
        elif index == 0:
            one = failing(one, stage, "Read error [10.77.0.11]:40123: Connection reset by peer")
        else:
            one = failing(one, stage, "ended after 4.0 s: another rank failed", killed=True, state="S")
        facts.append(one)
    first, *rest = facts[number].ranks
    entry = RankStage(
        stage, "failed", 4.0, "ended after 4.0 s: the process is stopped", {"killed": True, "state": state}
    )
    if died is not None:
        entry = RankStage(stage, "error", 0.2, died, {"died": True})
    first = replace(first, pid=4242, stages=(*first.stages[:-1], entry))
    facts[number] = replace(facts[number], ranks=(first, *rest))
    return tuple(facts)


KILLED = "the process was ended by signal 9"
