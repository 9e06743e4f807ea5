"""Variables that a site's check reads and that were not collected, so that no finding does not mean no failure."""

from __future__ import annotations

import sys
from collections.abc import Callable, ItemsView, Iterator, KeysView, Sequence, ValuesView
from dataclasses import replace
from typing import Any

from distdoctor.knowledge.settings import ALLOWED, looks_secret
from distdoctor.model.cluster import Cluster
from distdoctor.model.facts import NodeFacts

SHOWN = 8
ITERATED = (
    "it iterates over the environment variables, and only known ones are collected "
    '(declare those that it reads: VARIABLES = ("SITE_QUEUE",))'
)


class Watch:
    """Cluster that records lookups of variables which no node's facts can have.

    A check that iterates over variables may look for one that was not collected. Only a check that declares VARIABLES
    is taken to know which names can be there.
    """

    def __init__(self, cluster: Cluster, declared: Sequence[str]) -> None:
        self._declared = declared
        self._iterated = False
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

    def notes(self) -> str:
        """Return the variables that were not collected, their nodes and the fix; empty if all were."""
        texts = [self._note_on(name, [*nodes]) for name, nodes in self._missing.items()]
        return "; ".join([*texts, ITERATED] if self._iterated and not self._declared else texts)

    def _note_on(self, name: str, nodes: list[str]) -> str:
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
        def note(name: str | None) -> None:
            if name is None:
                self._iterated = True
            else:
                self._note(node, facts, name)

        jobs = tuple(
            replace(job, processes=tuple(replace(p, variables=_Watched(p.variables, note)) for p in job.processes))
            for job in facts.jobs
        )
        return replace(facts, variables=_Watched(facts.variables, note), jobs=jobs)


class _Watched(dict[str, str]):
    """Variables that report lookups of absent names, and (as None) any iteration over them."""

    def __init__(self, values: dict[str, str], note: Callable[[str | None], None]) -> None:
        super().__init__(values)
        self._note = note

    def __contains__(self, name: object) -> bool:
        self._look_up(name)
        return super().__contains__(name)

    def __missing__(self, name: str) -> str:
        self._look_up(name)
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value, like a dict."""
        self._look_up(name)
        return super().get(name, default)

    def __iter__(self) -> Iterator[str]:
        self._iterate()
        return super().__iter__()

    def __reversed__(self) -> Iterator[str]:
        self._iterate()
        return super().__reversed__()

    def __or__(self, other: Any) -> Any:
        self._iterate()
        return super().__or__(other)

    def __ror__(self, other: Any) -> Any:
        self._iterate()
        return super().__ror__(other)

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        """Return the names, like a dict."""
        self._iterate()
        return super().keys()

    def values(self) -> ValuesView[str]:  # type: ignore[override]
        """Return the values, like a dict."""
        self._iterate()
        return super().values()

    def items(self) -> ItemsView[str, str]:  # type: ignore[override]
        """Return names and values, like a dict."""
        self._iterate()
        return super().items()

    def copy(self) -> dict[str, str]:
        """Return the same variables in a plain dict."""
        self._iterate()
        return super().copy()

    def _look_up(self, name: object) -> None:
        if isinstance(name, str) and not super().__contains__(name):
            self._note(name)

    def _iterate(self) -> None:
        """Report an iteration by the check itself: check_api iterates only over names that are always collected."""
        if not sys._getframe(2).f_globals.get("__name__", "").startswith("distdoctor."):
            self._note(None)
