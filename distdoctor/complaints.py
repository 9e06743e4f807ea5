"""What ranks said of a limit that they ran into."""

from __future__ import annotations

from collections.abc import Collection

from distdoctor.cluster import Cluster
from distdoctor.outcomes import shorten


def complaints(cluster: Cluster, words: Collection[str], unless: str = "") -> dict[str, tuple[str, ...]]:
    """Node name -> the errors of its ranks that hold one of ``words`` and not ``unless``, each once, as lines of
    evidence."""
    found: dict[str, tuple[str, ...]] = {}
    for node in cluster.nodes:
        errors = [entry.error for rank in node.facts.ranks for entry in rank.stages if entry.error]
        errors = [error for error in errors if not (unless and unless in error)]
        texts = dict.fromkeys(shorten(error) for error in errors if any(word in error for word in words))
        if texts:
            found[node.name] = tuple(f"{node.name}: {text}" for text in texts)
    return found
