"""Environment variables as a site's check reads them: one that a node did not collect raises NotCollected, so that it
never looks unset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from distdoctor.knowledge.settings import ALLOWED, looks_secret
from distdoctor.model.cluster import Cluster
from distdoctor.model.facts import NodeFacts

SHOWN = 8
ITERATED = (
    "it iterates over the environment variables, and only known ones are collected "
    '(declare those that it reads: VARIABLES = ("SITE_QUEUE",))'
)


class NotCollected(BaseException):
    """Reading of a variable that a node did not collect; the text names variable, nodes and fix.

    Not an Exception: a check that catches KeyError or Exception would take the variable for unset.
    """


def only_collected(cluster: Cluster, declared: Sequence[str], iterable: bool) -> Cluster:
    """Return the cluster with variables that raise NotCollected if the check reads one that a node did not collect.

    ``declared`` are the names of its VARIABLES. An iteration may look for any name: if ``iterable``, it raises
    only where one of them was not collected.
    """

    def require(facts: NodeFacts, name: str) -> None:
        if not _is_collected(facts, name):
            raise NotCollected(_reason(cluster, name, name in declared))

    def require_all(facts: NodeFacts) -> None:
        if not iterable:
            raise NotCollected(ITERATED)
        for name in declared:
            require(facts, name)

    def guarded(facts: NodeFacts) -> NodeFacts:
        def guard(variables: dict[str, str]) -> dict[str, str]:
            view = _Variables(variables, partial(require, facts), partial(require_all, facts))
            return cast("dict[str, str]", view)

        jobs = tuple(
            replace(job, processes=tuple(replace(p, variables=guard(p.variables)) for p in job.processes))
            for job in facts.jobs
        )
        return replace(facts, variables=guard(facts.variables), jobs=jobs)

    nodes = tuple(replace(node, facts=guarded(node.facts)) for node in cluster.nodes)
    return replace(cluster, nodes=nodes, slices=tuple(map(guarded, cluster.slices)))


class _Variables(Mapping[str, str]):
    """Variables of a node or process; ``require`` and ``require_all`` raise NotCollected."""

    def __init__(
        self, values: Mapping[str, str], require: Callable[[str], None], require_all: Callable[[], None]
    ) -> None:
        self._values, self._require, self._require_all = values, require, require_all

    def __getitem__(self, name: str) -> str:
        if name not in self._values:
            self._require(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        self._require_all()
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __or__(self, other: Mapping[str, str]) -> dict[str, str]:
        return {**self, **other}

    def __ror__(self, other: Mapping[str, str]) -> dict[str, str]:
        return {**other, **self}

    def copy(self) -> dict[str, str]:
        """Return the variables as a dict, like dict.copy()."""
        return {**self}


def _is_collected(facts: NodeFacts, name: str) -> bool:
    return name in ALLOWED or name in facts.site_variables or name in facts.variables


def _reason(cluster: Cluster, name: str, declared: bool) -> str:
    """Return the text of NotCollected: the nodes without the variable, and the fix."""
    if looks_secret(name):
        return f"{name} looks like a secret and is never collected"
    by_node = [(cluster.by_key[one.key].name, one) for one in cluster.slices if one.key in cluster.by_key]
    by_node += [(node.name, node.facts) for node in cluster.nodes]
    nodes = [*dict.fromkeys(node for node, facts in by_node if not _is_collected(facts, name))]
    more = f" and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else ""
    declare = f'declare it in the check: VARIABLES = ("{name}",)'
    fix = "run distdoctor there with the same --checks" if declared else declare
    return f"{name} was not collected on {', '.join(nodes[:SHOWN])}{more} ({fix})"
