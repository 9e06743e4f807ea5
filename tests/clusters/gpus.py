"""Clusters of nodes with GPUs, and of a job that uses NCCL alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import NodeFacts
from tests.checks.row import Facts
from tests.facts_builder import met, node, with_gpus, with_identity, with_plan


def nccl_only(one: NodeFacts) -> NodeFacts:
    """--backend nccl, and gloo was not probed."""
    one = with_plan(one, backend="nccl")
    return replace(one, ranks=tuple(replace(r, gpu=None, stages=()) for r in one.ranks), stages=one.stages[:2])


def gpu_node(number: int, of: int, ranks: int) -> NodeFacts:
    one = with_plan(with_gpus(node(f"host{number}", number, of=of, nproc=ranks), ranks), sources={})
    return with_identity(one, backends=("gloo", "nccl"), cuda="12.8", nccl="2.27.5")


def uneven_gpus(*counts: int) -> Facts:
    return met(*(gpu_node(n, len(counts), ranks) for n, ranks in enumerate(counts)))


def gpus(count: int = 2) -> Facts:
    return uneven_gpus(*(8 for _ in range(count)))
