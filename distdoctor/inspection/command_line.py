"""What torchrun was told: its options from the command line of an agent, else its variables; or what accelerate was
told, which runs that agent in its own process."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from distdoctor.launch import accelerate_line
from distdoctor.launch.address_syntax import split_endpoint
from distdoctor.launch.nodes import number_of
from distdoctor.launch.torchrun import OF_ACCELERATE
from distdoctor.launch.torchrun_line import options
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
from distdoctor.model.sanitize import without_userinfo

_JOIN_TIMEOUTS = {"c10d": ("join_timeout", 600.0), "static": ("timeout", 900.0)}
"""The setting of --rdzv-conf that says how many seconds the agents wait for each other, and its default
(dynamic_rendezvous.py, ``RendezvousTimeout``; launcher/api.py, ``LaunchConfig.__post_init__``)."""


@dataclass(frozen=True)
class AgentOptions:
    """The options that say which job it is."""

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
        """The least and the largest number of nodes; None where it is no number."""
        parts = [number_of(part) for part in self.nnodes.split(":")]
        least, most = parts[0], parts[-1]
        return (least, most) if least is not None and most is not None and len(parts) <= 2 else None

    @property
    def endpoint(self) -> tuple[str, int] | None:
        """Where the agents meet; None where that is not said, or where the kernel picks the port."""
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
        """Whether the kernel may have picked the port of its rendezvous, so that no other agent has the same: with
        --standalone, and since torch 2.13 on one node for which no port was told (run.py: ``localhost:0``)."""
        if self.standalone or self.rdzv_backend != "static":
            return self.endpoint is None
        told = self.master_port or self.rdzv_endpoint
        return not told and self.nodes is not None and self.nodes[1] == 1

    @property
    def static_node_rank(self) -> int | None:
        """Which node this one was told to be, 0 unless told (run.py); None with c10d, which gives the numbers out."""
        return number_of(self.node_rank or "0") if self.rdzv_backend == "static" else None

    @property
    def join_timeout(self) -> float | None:
        """Seconds that the agents wait for each other; None where the rendezvous is neither static nor c10d."""
        if self.rdzv_backend not in _JOIN_TIMEOUTS:
            return None
        name, default = _JOIN_TIMEOUTS[self.rdzv_backend]
        match = re.search(rf"(?:^|,)\s*{name}\s*=\s*(\d{{1,7}})\s*(?:,|$)", self.rdzv_conf)
        return float(match[1]) if match else default

    @property
    def awaited_nodes(self) -> int | None:
        """The number of nodes that must join before the ranks start: the least of MIN:MAX with c10d, the most with the
        static rendezvous (static_tcp_rendezvous.py: ``world_size = params.max_nodes``)."""
        return None if self.nodes is None else self.nodes[self.rdzv_backend == "static"]


def of_agent(command: Sequence[str], variables: Mapping[str, str]) -> AgentOptions:
    """The options, as torchrun reads them: its own words end where the script's begin. Of another program that runs the
    agent, as one of a framework does, nothing is known."""
    command = [*command]
    given = _of_torchrun(command)
    if given is None:
        given, variables = _of_accelerate(command, variables), {}
    if given is None:
        return AgentOptions(nnodes="", nproc_per_node="", rdzv_backend="")

    def told(setting: Setting, default: str) -> str:
        return given.get(setting.flag) or variables.get(setting.pet) or default

    return AgentOptions(
        nnodes=told(NNODES, "1"),
        nproc_per_node=told(NPROC_PER_NODE, "1"),
        node_rank=told(NODE_RANK, ""),
        master_addr=without_userinfo(told(MASTER_ADDR, "")),
        master_port=told(MASTER_PORT, ""),
        rdzv_backend=told(RDZV_BACKEND, "static"),
        rdzv_endpoint=without_userinfo(told(RDZV_ENDPOINT, "")),
        rdzv_id=told(RDZV_ID, "none"),
        rdzv_conf=told(RDZV_CONF, ""),
        standalone=STANDALONE.flag in given or STANDALONE.pet in variables,
    )


def _of_torchrun(command: Sequence[str]) -> dict[str, str] | None:
    """What stands behind the name of the program; None where that is another."""
    for place, word in enumerate(command[:8]):
        if os.path.basename(word) == "torchrun" or word.endswith(("distributed/run.py", "distributed/launch.py")):
            return options(command[place + 1 :])
        if word == "-m" and command[place + 1 : place + 2] in (["torch.distributed.run"], ["torch.distributed.launch"]):
            return options(command[place + 2 :])
    return None


def _of_accelerate(command: Sequence[str], variables: Mapping[str, str]) -> dict[str, str] | None:
    """The same of accelerate; None where it is none, or its words make no sense."""
    for place, word in enumerate(command[:8]):
        if os.path.basename(word) in OF_ACCELERATE:
            own = command[place + 1 :]
            try:
                return options(accelerate_line.flags(own[own[:1] == ["launch"] :], {**_places(), **variables}))
            except ValueError:
                return None
    return None


def _places() -> dict[str, str]:
    """What says where accelerate's own file is: a process tells it only to its own user, whose it is here, too."""
    return {name: os.environ[name] for name in ("HOME", "HF_HOME", "XDG_CACHE_HOME") if name in os.environ}
