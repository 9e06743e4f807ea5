"""A participant of the run, as node 0 knows it: a started process, and what it has told so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from distdoctor.model.facts import NodeFacts, StageFacts
from distdoctor.session.protocol import Event

OWN = 0
"""The number of node 0's own process; the others count from 1."""


@dataclass
class Participant:
    """One started process: how it stands, and how the stages ended there."""

    number: int
    facts: NodeFacts
    mesh_port: int | None
    sequence: int = 1
    nonce: str = ""
    results: dict[tuple[str, int], Event] = field(default_factory=dict)
    """(stage, attempt) -> how it ended there."""
    troubled: set[tuple[str, int]] = field(default_factory=set)
    left: bool = False
    """It was interrupted and said so."""
    lost: bool = False
    """It stopped answering."""
    there: bool = False
    """But its process was there, as its kernel still accepted for it."""
    stalled: StageFacts | None = None
    """The stage that it then did not come through in time."""

    @property
    def gpus(self) -> int:
        """How many devices its first rank sees."""
        gpu = self.facts.ranks[0].gpu if self.facts.ranks else None
        return len(gpu.visible) if gpu else 0

    @property
    def cuda_start(self) -> float:
        """Seconds until CUDA could be used there: many, where the driver puts away what nobody uses."""
        return max((rank.gpu.started or 0.0 for rank in self.facts.ranks if rank.gpu), default=0.0)

    def take(self, event: Event) -> None:
        """Note what it tells."""
        if event.facts is not None and event.facts.key == self.facts.key:
            self.facts = event.facts if self.number == OWN else of_another(event.facts)
        if event.kind == "result":
            self.results[event.stage, event.attempt] = event
        elif event.kind == "trouble":
            self.troubled.add((event.stage, event.attempt))
        elif event.kind == "left":
            self.left = True


def of_another(facts: NodeFacts) -> NodeFacts:
    """The facts of another process than node 0, without what only node 0 can know: the groups that it tried with its
    own ranks are its own to tell."""
    if facts.meeting is not None:
        facts = replace(facts, meeting=replace(facts.meeting, hosted=False, arrived=(), expected=0, lost=()))
    tried = tuple(group for group in facts.groups if group.ranks and group.nodes == (facts.key,))
    return replace(facts, trials=(), groups=tried)
