"""Environments as launchers made them, recorded on real clusters of three hosts, and the plan made of each."""

from __future__ import annotations

from typing import Any

from distdoctor.model.plan import Plan
from distdoctor.plan.resolve import resolve
from distdoctor.plan.values import Flags

RANK_ENV = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "host0",
    "MASTER_PORT": "29500",
}
"""Made by hand: of rank 3, on the second of two nodes with two ranks each."""


def env_of(text: str) -> dict[str, str]:
    """``NAME=value`` words as a mapping."""
    return dict(word.split("=", 1) for word in text.split())


def without(env: dict[str, str], *names: str) -> dict[str, str]:
    """The rest of them."""
    return {name: value for name, value in env.items() if name not in names}


def plan_in(env: dict[str, str] | None = None, gpus: int = 0, **flags: Any) -> Plan:
    """The plan of a process with this environment and these flags, on a node with 4 processors."""
    return resolve(Flags(**flags), env or {}, lambda: gpus, lambda: 4)


def values(plan: Plan, *names: str) -> tuple[Any, ...]:
    """These fields of the plan."""
    return tuple(getattr(plan, name) for name in names)
