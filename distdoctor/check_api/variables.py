"""Variables of a node: names that look like a known one misspelled, and values of torch's own that end a process.

c10d reads the latter as a process group is made (Utils.hpp, getCvarInt and getCvarBool): an empty text is no value,
either. Gloo's were tried with torch 2.13: what the flight recorder cannot read ends the process by signal 6, without a
Python error. NCCL's are those that the constructor of ProcessGroupNCCL reads from torch 2.2 on, and were not tried on a
GPU. What NCCL itself makes of its settings stands in knowledge/nccl_values.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from distdoctor.check_api import gpus
from distdoctor.check_api.text import together
from distdoctor.knowledge import nccl_values
from distdoctor.knowledge.nccl import version as nccl_version
from distdoctor.knowledge.variables import ALLOCATOR, DEPRECATED_VARIABLES, variable_meant
from distdoctor.model.cluster import Node
from distdoctor.model.plan import PlanProblem

__all__ = ["DEPRECATED_VARIABLES", "misspellings_of", "unreadable", "variable_meant"]
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
"""Read by distributed_c10d.py, with Python's int()."""
_LAZY_SINCE, _SEEN = (2, 8), (2, 13)
"""torch, from which gloo has the one; the version with which the others were seen."""
_SWITCHES = ("y", "yes", "1", "t", "true", "n", "no", "0", "f", "false")


def unreadable(node: Node) -> Iterator[PlanProblem]:
    """What torch or NCCL would end on as this node's ranks make their groups, or take for something else; nothing where
    their version is not known."""
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
    if said := gpus.allocator_refused(node):
        for name in ALLOCATOR:
            if name in node.variables:
                why = f"is refused by torch where it begins to use a GPU: {said}"
                yield PlanProblem(name, node.variables[name], why, unset=True)
    for name, kind in read.items():
        value = node.variables.get(name)
        if value is not None and not (_is_number(value) if kind == _NUMBER else value.lower() in _SWITCHES):
            yield PlanProblem(name, value, f"{kind}: torch ends on it", unset=True)
    value = node.variables.get(_BARRIER)
    if value is not None and version >= _SEEN and not re.fullmatch(r"\s*[+-]?\d+(_\d+)*\s*", value):
        yield PlanProblem(_BARRIER, value, f"{_NUMBER}: torch ends on it", unset=True)


def _of_nccl(node: Node) -> Iterator[PlanProblem]:
    """The settings of NCCL that it refuses or misreads. RCCL's own were not read."""
    if node.identity.cuda is None:
        return
    own, several = f"NCCL {node.identity.nccl}", (node.plan.world_size or 0) > 1
    version = nccl_version(node.identity.nccl)
    for name, value in node.variables.items():
        if why := nccl_values.refused(name, value, version):
            yield PlanProblem(name, value, f"{why}: {own} ends on it", nccl_values.mended(name, value), unset=True)
        elif taken := nccl_values.misread(name, value):
            why = f"is no number: NCCL takes it for {taken[0]}"
            yield PlanProblem(name, value, why, taken[1], unset=True, starts=True)
        elif several and name == "NCCL_ALGO" and (without := nccl_values.left_without(value, version)):
            why = f"leaves no algorithm for {together(without)}: {own} ends where one of these is called"
            yield PlanProblem(name, value, why, unset=True, starts=True)


def _is_number(text: str) -> bool:
    """Whether std::stoi makes a number of it: what stands behind one is passed over."""
    match = re.match(r"[ \t\n\v\f\r]*([+-]?\d{1,12})", text)
    return match is not None and -(1 << 31) <= int(match[1]) < 1 << 31


def misspellings_of(node: Node, variable: str) -> tuple[str, ...]:
    """The variables of this node that look like ``variable`` misspelled."""
    return tuple(name for name in node.facts.near_misses if variable_meant(name) == variable)
