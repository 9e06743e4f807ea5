"""A row of the table of faults: a cluster's facts, and what must be said of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from distdoctor.model.facts import NodeFacts

Facts = tuple[NodeFacts, ...]


@dataclass(frozen=True)
class Row:
    """One fault."""

    name: str
    facts: Callable[[], Facts]
    root: str
    nodes: tuple[str, ...]
    severity: str = "fail"
    blame: str = "all"
    together: bool = False
    """The nodes met, so that each live report is the whole one: none of them judges alone."""
    alone: tuple[str, ...] = ()
    """What else a node says that knows nothing of the others."""
