"""What a launcher tells a process that it starts as one of several. Each launcher has a module with ``detect(env)``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from distdoctor.model.launch_settings import LAUNCH_VARIABLES


@dataclass(frozen=True)
class Found:
    """A value of the plan that stands in no variable of its own, and what it was made from."""

    value: int | str
    source: str


@dataclass(frozen=True)
class Launched:
    """This process is one of several that a launcher has started."""

    launcher: str
    variables: Mapping[str, tuple[str, ...]]
    """Where it puts each field of the plan; the first variable that is set counts."""
    found: Mapping[str, Found] = field(default_factory=dict)
    """Fields of the plan that no variable of those says."""
    required: tuple[str, ...] = LAUNCH_VARIABLES
    """The variables without which the job would not start."""
    roster: tuple[str, ...] = ()
    """The names of the nodes, in the order of their ranks; empty where that is not told."""
    tasks: tuple[int, ...] = ()
    """How many processes each of them has."""
    nodes_even: bool = True
    """Each node has as many processes as this one."""
    task: str = ""
    """The variable that numbers the processes whose output it makes one; empty where each has its own."""
    per_node: bool = False
    """It starts one process on each node, none for each rank."""
    rank0_unknown: str = ""
    """Where it does not tell who is rank 0: how the user can, in words."""
    everywhere: str = ""
    """What has to stand before the command, where nobody starts it on the nodes of the job but this one."""
    note: str = ""
    """What a reader of the report should know of it."""
    agent_store: bool = False
    """torchrun's agent hosts the store, the ranks are its clients."""
    run_id: str = "none"
    restart: int = 0
    """How often the ranks have been started again."""
    spawned: bool = False
    """A process of a launcher has started it, and not the launcher itself."""

    @property
    def first(self) -> str:
        """Where its first process is; empty where it only guesses that, as by the host that it was started on."""
        found = self.found.get("master_addr")
        return str(found.value) if found is not None and self.roster else ""
