"""Options of torchrun: from the command line of an agent, else its variables; or those of accelerate, which runs the
agent in its own process."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from distdoctor.model.launch_settings import (
    MASTER_ADDR,
    MASTER_PORT,
    NNODES,
    NODE_RANK,
    NPROC_PER_NODE,
    RDZV_BACKEND,
    RDZV_CONF,
    RDZV_ENDPOINT,
    RDZV_ID,
    STANDALONE,
    Setting,
)
from distdoctor.model.plan import DEFAULT_PORT
from distdoctor.model.text import without_userinfo
from distdoctor.plan import job_command
from distdoctor.plan.launchers.frameworks import OF_ACCELERATE
from distdoctor.plan.syntax import number_of, split_endpoint
from distdoctor.plan.torchrun import torchrun_options

_JOIN_TIMEOUTS = {"c10d": ("join_timeout", 600.0), "static": ("timeout", 900.0)}
"""Key of --rdzv-conf for the seconds that the agents wait for each other, and its default (dynamic_rendezvous.py,
``RendezvousTimeout``; launcher/api.py, ``LaunchConfig.__post_init__``)."""
_CONNECT_TIMEOUTS = _JOIN_TIMEOUTS | {"c10d": ("read_timeout", 60.0)}
"""The same for the seconds that an agent tries to connect to the store (c10d_rendezvous_backend.py)."""


@dataclass(frozen=True)
class AgentOptions:
    """Options that identify the job."""

    nnodes: str = "1"
    nproc_per_node: str = "1"
    node_rank: str = ""
    master_addr: str = ""
    master_port: str = ""
    rdzv_backend: str = "static"
    rdzv_endpoint: str = ""
    rdzv_id: str = "none"
    rdzv_conf: str = ""
    standalone: bool = False

    @property
    def nodes(self) -> tuple[int, int] | None:
        """Return the least and the largest number of nodes, None if it is no number."""
        parts = [number_of(part) for part in self.nnodes.split(":")]
        least, most = parts[0], parts[-1]
        return (least, most) if least is not None and most is not None and len(parts) <= 2 else None

    @property
    def endpoint(self) -> tuple[str, int] | None:
        """Return the address where the agents join, None if unset or if the kernel picks the port."""
        if self.standalone:
            return None
        if self.rdzv_backend == "static":
            port = number_of(self.master_port)
            if self.rdzv_endpoint:
                host, number = split_endpoint(self.rdzv_endpoint)
                return host, number if number is not None else DEFAULT_PORT
            return (self.master_addr or "127.0.0.1"), DEFAULT_PORT if port is None else port
        if not self.rdzv_endpoint:
            return None
        host, number = split_endpoint(self.rdzv_endpoint)
        return (host, 29400 if number is None else number) if number != 0 else None

    @property
    def may_pick_port(self) -> bool:
        """Return whether the kernel may have picked the port of its rendezvous, so that no other agent has the same.

        It does with --standalone, and since torch 2.13 on one node without a port (run.py: ``localhost:0``).
        """
        if self.standalone or self.rdzv_backend != "static":
            return self.endpoint is None
        address = self.master_port or self.rdzv_endpoint
        return not address and self.nodes is not None and self.nodes[1] == 1

    @property
    def static_node_rank(self) -> int | None:
        """Return the node rank of a static rendezvous, 0 if unset (run.py); None with c10d, which assigns the ranks."""
        return number_of(self.node_rank or "0") if self.rdzv_backend == "static" else None

    @property
    def join_timeout(self) -> float | None:
        """Return the seconds that the agents wait for each other; None unless the rendezvous is static or c10d."""
        return self._timeout(_JOIN_TIMEOUTS)

    @property
    def connect_timeout(self) -> float | None:
        """Return the seconds that an agent tries to connect to the store; None unless static or c10d."""
        return self._timeout(_CONNECT_TIMEOUTS)

    def _timeout(self, keys: Mapping[str, tuple[str, float]]) -> float | None:
        if self.rdzv_backend not in keys:
            return None
        name, default = keys[self.rdzv_backend]
        match = re.search(rf"(?:^|,)\s*{name}\s*=\s*(\d{{1,7}})\s*(?:,|$)", self.rdzv_conf)
        return float(match[1]) if match else default

    @property
    def awaited_nodes(self) -> int | None:
        """Return the number of nodes that must join before the ranks start.

        It is the minimum of MIN:MAX with c10d, the maximum with the static rendezvous (static_tcp_rendezvous.py:
        ``world_size = params.max_nodes``).
        """
        return None if self.nodes is None else self.nodes[self.rdzv_backend == "static"]


def of_agent(command: Sequence[str], variables: Mapping[str, str]) -> AgentOptions:
    """Return the options as torchrun reads them: its own arguments end where the script's begin.

    Nothing is known about another program that runs the agent, such as a framework's.
    """
    command = [*command]
    given = _of_torchrun(command)
    if given is None:
        given, variables = _of_accelerate(command, variables), {}
    if given is None:
        return AgentOptions(nnodes="", nproc_per_node="", rdzv_backend="")

    def value_of(setting: Setting, default: str) -> str:
        return given.get(setting.flag) or variables.get(setting.pet) or default

    return AgentOptions(
        nnodes=value_of(NNODES, "1"),
        nproc_per_node=value_of(NPROC_PER_NODE, "1"),
        node_rank=value_of(NODE_RANK, ""),
        master_addr=without_userinfo(value_of(MASTER_ADDR, "")),
        master_port=value_of(MASTER_PORT, ""),
        rdzv_backend=value_of(RDZV_BACKEND, "static"),
        rdzv_endpoint=without_userinfo(value_of(RDZV_ENDPOINT, "")),
        rdzv_id=value_of(RDZV_ID, "none"),
        rdzv_conf=value_of(RDZV_CONF, ""),
        standalone=STANDALONE.flag in given or STANDALONE.pet in variables,
    )


def _of_torchrun(command: Sequence[str]) -> dict[str, str] | None:
    """Return torchrun's arguments, None for any other program."""
    for place, word in enumerate(command[:8]):
        if os.path.basename(word) == "torchrun" or word.endswith(("distributed/run.py", "distributed/launch.py")):
            return torchrun_options(command[place + 1 :])
        if word == "-m" and command[place + 1 : place + 2] in (["torch.distributed.run"], ["torch.distributed.launch"]):
            return torchrun_options(command[place + 2 :])
    return None


def _of_accelerate(command: Sequence[str], variables: Mapping[str, str]) -> dict[str, str] | None:
    """Return accelerate's arguments as torchrun's options, None for any other program or invalid arguments."""
    for place, word in enumerate(command[:8]):
        if os.path.basename(word) in OF_ACCELERATE:
            own = command[place + 1 :]
            try:
                return torchrun_options(
                    job_command.accelerate_flags(own[own[:1] == ["launch"] :], {**_places(), **variables})
                )
            except ValueError:
                return None
    return None


def _places() -> dict[str, str]:
    """Return the variables that locate accelerate's own file: the user's own, as a process hides its variables from
    other users."""
    return {name: os.environ[name] for name in ("HOME", "HF_HOME", "XDG_CACHE_HOME") if name in os.environ}
