"""What a rank's process holds between calls."""

from __future__ import annotations

from typing import Any


class State:
    """What this process holds between calls: its store and its process group."""

    def __init__(self) -> None:
        self.store: Any = None
        self.barrier_group: Any = None
        """The group for the barrier, where it must not be the default one (None)."""
        self.rank = -1
        self.world = 0
