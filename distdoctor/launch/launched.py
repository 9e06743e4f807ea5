"""What a launcher tells a process that it starts as one rank. Each launcher has a module with ``detect(env)``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Launched:
    """This process is one rank of a launcher's job."""

    launcher: str
    variables: Mapping[str, tuple[str, ...]]
    """Where it puts each field of the plan; the first variable that is set counts."""
    agent_store: bool = False
    """torchrun's agent hosts the store, the ranks are its clients."""
    run_id: str = "none"
    restart: int = 0
    """How often the ranks have been started again."""
