"""Names of variables that look like a known one misspelled."""

from __future__ import annotations

from distdoctor.knowledge.variables import variable_meant
from distdoctor.model.cluster import Node


def misspellings_of(node: Node, variable: str) -> tuple[str, ...]:
    """The variables of this node that look like ``variable`` misspelled."""
    return tuple(name for name in node.facts.near_misses if variable_meant(name) == variable)
