"""Values that should be the same on all nodes: which one is usual, and who differs."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from distdoctor.blame import together
from distdoctor.cluster import Cluster, Node
from distdoctor.findings import Blame
from distdoctor.probes.known_variables import meant
from distdoctor.settings import FATAL, GLOO, INTERFACES, compared, devices, effect

__all__ = [
    "FATAL",
    "GLOO",
    "INTERFACES",
    "Split",
    "compared",
    "devices",
    "effect",
    "has_gpus",
    "install_torch",
    "misspelled",
    "plans_nccl",
    "ranks_on",
    "ranks_planned",
    "split",
]

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Split(Generic[T]):
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


def split(values: Mapping[str, T]) -> Split[T] | None:
    """How the nodes disagree; None where they do not."""
    said = Counter(values.values())
    if len(said) < 2:
        return None
    (usual, count), *_ = said.most_common()
    if count * 2 > len(values):
        return Split(values, usual, True)
    return Split(values, next(iter(values.values())), False)


def misspelled(node: Node, variable: str) -> tuple[str, ...]:
    """The variables of this node that look like ``variable`` misspelled."""
    return tuple(name for name in node.facts.near_misses if meant(name) == variable)


def has_gpus(node: Node) -> bool:
    """Whether a rank of the node sees a device."""
    return any(rank.gpu and rank.gpu.visible for rank in node.facts.ranks)


def plans_nccl(node: Node) -> bool:
    """Whether the job makes an NCCL group on this node."""
    return "nccl" in node.plan.backends(gpus=has_gpus(node))


def ranks_on(node: Node) -> int:
    """How many ranks the node has: planned where it was started once per node or that is known, else those seen."""
    return node.plan.nproc_per_node or len(node.facts.ranks)


def ranks_planned(cluster: Cluster) -> int:
    """How many ranks the job has, as far as the plan or the nodes here tell; 1 at least."""
    return max(cluster.plan.world_size or 0, sum(ranks_on(node) for node in cluster.nodes), 1)


def install_torch(version: str) -> str:
    """The command that installs this version of torch, from the index of its build where it names one (+cu126)."""
    release, _, build = version.partition("+")
    words = ["pip", "install", f"torch=={release}"]
    if re.fullmatch(r"cpu|cu\d+|rocm[\d.]+|xpu", build):
        words += ["--index-url", f"https://download.pytorch.org/whl/{build}"]
    return shlex.join(words)
