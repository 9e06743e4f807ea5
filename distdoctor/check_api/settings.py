"""Variables and settings of nodes: misspellings, values that end a process, values that differ between nodes,
rendezvous.

c10d reads torch's own as a process group is made (Utils.hpp, getCvarInt and getCvarBool): an empty text is no value,
either. Gloo's were tried with torch 2.13: an invalid flight recorder setting ends the process by signal 6, without a
Python error. NCCL's are those that the constructor of ProcessGroupNCCL reads from torch 2.2 on, and were not tried on a
GPU. NCCL's own settings are in knowledge/nccl.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from distdoctor.check_api import gpus
from distdoctor.check_api.text import together
from distdoctor.knowledge import nccl
from distdoctor.knowledge.nccl import version as nccl_version
from distdoctor.knowledge.settings import ALLOCATOR, DEPRECATED_VARIABLES, IDENTICAL, intended_variable, of_backends
from distdoctor.knowledge.torchrun import counts_ranks_alone, needs_own_name, takes_itself_for_host
from distdoctor.model.addresses import endpoint
from distdoctor.model.cluster import Node
from distdoctor.model.findings import Blame
from distdoctor.model.launch_settings import MASTER_ADDR, MASTER_PORT, NODE_RANK, RDZV_BACKEND, RDZV_ENDPOINT, RDZV_ID
from distdoctor.model.plan import PlanProblem

__all__ = [
    "DEPRECATED_VARIABLES",
    "IDENTICAL",
    "counts_ranks_alone",
    "flags_like",
    "free_node_ranks",
    "intended_variable",
    "misspellings_of",
    "needs_own_name",
    "takes_itself_for_host",
    "unreadable",
]
_NUMBER, _SWITCH = "is not a whole number", "is neither true nor false (1 or 0)"
_RECORDER = {
    "TORCH_FR_BUFFER_SIZE": _NUMBER,
    "TORCH_NCCL_TRACE_BUFFER_SIZE": _NUMBER,
    "TORCH_FR_CPP_STACK": _SWITCH,
    "TORCH_NCCL_TRACE_CPP_STACK": _SWITCH,
}
_LAZY = {"TORCH_GLOO_LAZY_INIT": _SWITCH}
_NCCL = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": _NUMBER,
    "NCCL_ASYNC_ERROR_HANDLING": _NUMBER,
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": _NUMBER,
    "TORCH_NCCL_TRACE_BUFFER_SIZE": _NUMBER,
    "TORCH_NCCL_BLOCKING_WAIT": _SWITCH,
    "NCCL_BLOCKING_WAIT": _SWITCH,
    "TORCH_NCCL_DESYNC_DEBUG": _SWITCH,
    "NCCL_DESYNC_DEBUG": _SWITCH,
    "TORCH_NCCL_DUMP_ON_TIMEOUT": _SWITCH,
    "TORCH_NCCL_ENABLE_MONITORING": _SWITCH,
}
_BARRIER = "TORCH_DIST_INIT_BARRIER"
"""Variable that distributed_c10d.py reads with Python's int()."""
_LAZY_SINCE, _SEEN = (2, 8), (2, 13)
"""Version of torch from which gloo has the first; version with which the others were seen."""
_SWITCHES = ("y", "yes", "1", "t", "true", "n", "no", "0", "f", "false")


def unreadable(node: Node) -> Iterator[PlanProblem]:
    """Yield the settings that end torch or NCCL when this node's ranks make their groups, or that they misread.

    Nothing is returned if their version is unknown.
    """
    match = re.match(r"(\d+)\.(\d+)", node.identity.torch or "")
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    backends = node.plan.backends(gpus=node.gpus)
    read: dict[str, str] = {}
    if "gloo" in backends and version >= _LAZY_SINCE:
        read.update(_LAZY)
    if "gloo" in backends and version >= _SEEN:
        read.update(_RECORDER)
    if "nccl" in backends and node.gpus and match:
        read.update(_NCCL)
        yield from _of_nccl(node)
    if refusal := gpus.allocator_refused(node):
        for name in ALLOCATOR:
            if name in node.variables:
                why = f"makes torch fail at its first use of a GPU: {refusal}"
                yield PlanProblem(name, node.variables[name], why, unset=True)
    for name, kind in read.items():
        value = node.variables.get(name)
        if value is not None and not (_is_number(value) if kind == _NUMBER else value.lower() in _SWITCHES):
            yield PlanProblem(name, value, f"{kind}: torch fails on it", unset=True)
    value = node.variables.get(_BARRIER)
    if value is not None and version >= _SEEN and not re.fullmatch(r"\s*[+-]?\d+(_\d+)*\s*", value):
        yield PlanProblem(_BARRIER, value, f"{_NUMBER}: torch fails on it", unset=True)


def _of_nccl(node: Node) -> Iterator[PlanProblem]:
    """Yield the settings of NCCL that it refuses or misreads. RCCL's own were not read."""
    if node.identity.cuda is None:
        return
    own, several = f"NCCL {node.identity.nccl}", (node.plan.world_size or 0) > 1
    version = nccl_version(node.identity.nccl)
    for name, value in of_backends(node.variables).items():
        if why := nccl.refused_value(name, value, version):
            yield PlanProblem(name, value, f"{why}: {own} fails on it", nccl.corrected_value(name, value), unset=True)
        elif taken := nccl.misread_value(name, value):
            why = f"is not a number: NCCL reads {taken[0]}"
            yield PlanProblem(name, value, why, taken[1], unset=True, starts=True)
        elif several and name == "NCCL_ALGO" and (without := nccl.without_value(value, version)):
            why = f"leaves no algorithm for {together(without)}: {own} fails when one of them is called"
            yield PlanProblem(name, value, why, unset=True, starts=True)


def _is_number(text: str) -> bool:
    """Return whether std::stoi parses it: text behind a number is ignored."""
    match = re.match(r"[ \t\n\v\f\r]*([+-]?\d{1,12})", text)
    return match is not None and -(1 << 31) <= int(match[1]) < 1 << 31


def misspellings_of(node: Node, variable: str) -> tuple[str, ...]:
    """Return the variables of this node that look like ``variable`` misspelled."""
    return tuple(name for name in node.facts.near_misses if intended_variable(name) == variable)


# Values that should be the same on all nodes: the usual one, and the nodes with another.


T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Disagreement(Generic[T]):
    """Nodes that do not agree on a value."""

    values: Mapping[str, T]
    """Node name -> its value, in the cluster's order."""
    usual: T
    """Value of more than half of them; without such a majority, the first one's."""
    majority: bool

    @property
    def others(self) -> tuple[str, ...]:
        """Return the nodes with another value than the usual one."""
        return tuple(name for name, value in self.values.items() if value != self.usual)

    @property
    def blamed(self) -> tuple[str, ...]:
        """Return the minority, or all of them if there is no majority."""
        return self.others if self.majority else tuple(self.values)

    @property
    def blame(self) -> Blame:
        """Return ``one-of`` if the right value is unknown."""
        return "all" if self.majority else "one-of"

    def said(self, none: str = "not set") -> str:
        """Return ``a on host0 and host1; b on host2``, for a sentence."""
        parts = []
        for value in dict.fromkeys(self.values.values()):
            names = together(name for name, its in self.values.items() if its == value)
            parts.append(f"{none if value is None else value} on {names}")
        return "; ".join(parts)


def disagreement(values: Mapping[str, T]) -> Disagreement[T] | None:
    """Return the nodes' disagreement, None if they agree."""
    counts = Counter(values.values())
    if len(counts) < 2:
        return None
    (usual, count), *_ = counts.most_common()
    if count * 2 > len(values):
        return Disagreement(values, usual, True)
    return Disagreement(values, next(iter(values.values())), False)


# Rendezvous of torchrun's agents: its host, and the command that brings a node to another's rendezvous.


Flags = dict[str, str | None]
_SETTINGS = (RDZV_BACKEND, RDZV_ENDPOINT, RDZV_ID, NODE_RANK, MASTER_ADDR, MASTER_PORT)


def flags_like(right: Node, node: Node, free: list[int]) -> Flags:
    """Return torchrun's flags for ``node`` to start it with the rendezvous of ``right``; None: without that flag.

    A static one takes one of the ``free`` node ranks out of that list.
    """
    plan = right.plan
    flags: Flags = {setting.flag: None for setting in _SETTINGS}
    flags[RDZV_ID.flag] = None if plan.run_id == "none" else plan.run_id
    if plan.rdzv_backend != "static":
        place = endpoint(plan.master_addr or "", plan.master_port)
        return {**flags, RDZV_BACKEND.flag: plan.rdzv_backend, RDZV_ENDPOINT.flag: place}
    rank = node.node_rank if node.node_rank in free else free[0]
    free.remove(rank)
    master = {MASTER_ADDR.flag: plan.master_addr, MASTER_PORT.flag: str(plan.master_port)}
    return {**flags, **master, NODE_RANK.flag: str(rank)}


def free_node_ranks(right: Collection[Node], total: int) -> list[int]:
    """Return the node ranks, from 0 to those of ``total`` nodes, that none of the correctly started nodes has."""
    taken = {node.plan.node_rank for node in right}
    return [rank for rank in range(total + len(taken)) if rank not in taken]
