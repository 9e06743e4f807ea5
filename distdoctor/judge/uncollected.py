"""Variables that a site's check wants and that were not collected: nothing found then does not mean nothing wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from distdoctor.knowledge.variables import ALLOWED, looks_secret
from distdoctor.model.cluster import Cluster
from distdoctor.model.facts import NodeFacts

SHOWN = 8


class Watch:
    """A cluster that notes which variables are looked up in it that no node's facts can have."""

    def __init__(self, cluster: Cluster, declared: Sequence[str]) -> None:
        self._declared = declared
        self._missing: dict[str, dict[str, None]] = {}
        """Name -> the nodes on which it was not collected."""
        names = {key: node.name for key, node in cluster.by_key.items()}
        for node in cluster.nodes:
            for name in declared:
                self._note(node.name, node.facts, name)
        self.cluster = replace(
            cluster,
            nodes=tuple(replace(node, facts=self._watched(node.facts, node.name)) for node in cluster.nodes),
            slices=tuple(self._watched(one, names.get(one.key, one.identity.hostname)) for one in cluster.slices),
        )

    def told(self) -> str:
        """What was not collected, where, and what to do about it; empty where all was."""
        return "; ".join(self._told(name, [*nodes]) for name, nodes in self._missing.items())

    def _told(self, name: str, nodes: list[str]) -> str:
        more = f" and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else ""
        where = ", ".join(nodes[:SHOWN]) + more
        if looks_secret(name):
            return f"{name} looks like a secret and is never collected"
        if name in self._declared:
            return f"{name} was not collected on {where} (run distdoctor there with the same --checks)"
        return f'{name} was not collected on {where} (declare it in the check: VARIABLES = ("{name}",))'

    def _note(self, node: str, facts: NodeFacts, name: str) -> None:
        if name not in ALLOWED and name not in facts.site_variables and name not in facts.variables:
            self._missing.setdefault(name, {})[node] = None

    def _watched(self, facts: NodeFacts, node: str) -> NodeFacts:
        def note(name: str) -> None:
            self._note(node, facts, name)

        jobs = tuple(
            replace(job, processes=tuple(replace(p, variables=_Watched(p.variables, note)) for p in job.processes))
            for job in facts.jobs
        )
        return replace(facts, variables=_Watched(facts.variables, note), jobs=jobs)


class _Watched(dict[str, str]):
    """Variables that tell which names were looked up and are not there."""

    def __init__(self, values: dict[str, str], note: Callable[[str], None]) -> None:
        super().__init__(values)
        self._note = note

    def __contains__(self, name: object) -> bool:
        self._look_up(name)
        return super().__contains__(name)

    def __missing__(self, name: str) -> str:
        self._look_up(name)
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        """The value, as of a dict."""
        self._look_up(name)
        return super().get(name, default)

    def _look_up(self, name: object) -> None:
        if isinstance(name, str) and not super().__contains__(name):
            self._note(name)
