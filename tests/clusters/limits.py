"""Clusters whose hosts' limits are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distdoctor.model.facts import Limits, NcclLog, NodeFacts, SharedMemory
from tests.checks.row import Facts
from tests.clusters.gpus import gpus
from tests.facts_builder import failing, healthy, judged, with_host

MIB = 1 << 20

ROOMY = SharedMemory(1 << 34, 1 << 34)

LIMITS = Limits(
    open_files=1024,
    open_files_hard=1 << 20,
    locked_memory=8 * MIB,
    shared_memory=ROOMY,
    port_range=(32768, 60999),
    unprivileged_port_start=1024,
)
"""What Linux has unless told otherwise."""


def limited(facts: NodeFacts, **changes: Any) -> NodeFacts:
    """The facts of a host with these limits."""
    return with_host(facts, limits=replace(LIMITS, **changes))


def on(which: tuple[int, ...], of: int = 2, **changes: Any) -> Facts:
    """Healthy nodes, those of the numbers with these limits, the others with the usual ones."""
    return tuple(limited(one, **(changes if n in which else {})) for n, one in enumerate(healthy(of)))


def nccl_limits(**changes: Any) -> Facts:
    return tuple(limited(one, **(changes if n else {})) for n, one in enumerate(gpus()))


def nccl_warns(text: str, **changes: Any) -> Facts:
    """The second of two nodes has these limits, its ranks make no group of NCCL's, and NCCL warns of this."""
    a, b = nccl_limits(**changes)
    a, b = failing(a, "nccl", KILLED, killed=True), failing(b, "nccl", "DistBackendError: unhandled system error")
    return a, replace(b, ranks=tuple(replace(rank, nccl=NcclLog("2.28.9", warnings=(text,))) for rank in b.ranks))


KILLED = "ended after 3 s: another rank failed"


def roots_and_fixes_when_told(text: str, **limits: object) -> tuple[list[str], str]:
    """The roots where a rank of host1 says this, and all that their fixes hold."""
    a, b = healthy(2)
    b = failing(with_host(b, limits=Limits(**limits)), "gloo", text)  # type: ignore[arg-type]
    roots = judged(failing(a, "gloo", KILLED, killed=True), b).roots
    return [f.check for f in roots], " ".join(" ".join((x.text, *x.commands)) for f in roots for x in f.fixes)
