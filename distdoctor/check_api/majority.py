"""Values that should be the same on all nodes: which one is usual, and who differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from distdoctor.check_api.text import together
from distdoctor.model.findings import Blame

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Disagreement(Generic[T]):
    """Nodes that do not agree on a value."""

    values: Mapping[str, T]
    """Node name -> its value, in the cluster's order."""
    usual: T
    """What more than half of them have; without such a majority, what the first one has."""
    majority: bool

    @property
    def others(self) -> tuple[str, ...]:
        """The nodes that have another value than the usual one."""
        return tuple(name for name, value in self.values.items() if value != self.usual)

    @property
    def blamed(self) -> tuple[str, ...]:
        """The minority; all of them where there is no majority."""
        return self.others if self.majority else tuple(self.values)

    @property
    def blame(self) -> Blame:
        """``one-of`` where it cannot be told which value is the right one."""
        return "all" if self.majority else "one-of"

    def said(self, none: str = "not set") -> str:
        """``a on host0 and host1; b on host2``, for a sentence."""
        parts = []
        for value in dict.fromkeys(self.values.values()):
            names = together(name for name, its in self.values.items() if its == value)
            parts.append(f"{none if value is None else value} on {names}")
        return "; ".join(parts)


def disagreement(values: Mapping[str, T]) -> Disagreement[T] | None:
    """How the nodes disagree; None where they do not."""
    said = Counter(values.values())
    if len(said) < 2:
        return None
    (usual, count), *_ = said.most_common()
    if count * 2 > len(values):
        return Disagreement(values, usual, True)
    return Disagreement(values, next(iter(values.values())), False)
