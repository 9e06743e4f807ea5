"""What the names of the keys in a job's store mean, as they are on the wire, from torch 2.1 to 2.13.

distributed_c10d.py and rendezvous.py make a PrefixStore of a PrefixStore: ``default_pg/`` > ``<group>/`` >
``<device>/`` > gloo's ``<number>`` > the rank, each joined to the next with a slash. torchrun's workers had
``/worker/attempt_<n>/`` in front until 2.5. static_tcp_rendezvous.py and dynamic_rendezvous.py: ``<run id>`` or
``torch.rendezvous.<run id>.<round>`` before what the agents tell each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

CLIENTS = b"init/"
MAX_NAME = 400
"""Characters of a key that is asked for."""
STATE = "/torch.rendezvous."
_GROUP = re.compile(
    r"/(?:/worker/attempt_(?P<attempt>\d{1,6})/)?(?P<path>\S{1,300}?)//(?P<device>[a-z]\w{0,20})//(?P<rest>[^/]{1,40})"
    r"(?:/(?P<rank>(?:rank_)?\d{1,8}))?"
)
_AGENT = re.compile(r"/(?P<run>.{1,255})/torchelastic/(?P<what>role_info|assigned_ranks)/?(?P<node>\d{1,7})", re.DOTALL)
_MASTER = re.compile(r"/torch\.rendezvous\.(?P<run>.{1,255})\.(?P<round>\d{1,9})/MASTER_(?:ADDR|PORT)", re.DOTALL)
_BARRIER = re.compile(r"/.{0,300}store_based_barrier_key:(?P<group>[^:]{1,100})", re.DOTALL)
_DEBUG = re.compile(r"/debug_server/rank(?P<rank>\d{1,8})")
_LEAVING = re.compile(r"/.{1,255}/torchelastic/agent/terminal_state/num_members", re.DOTALL)
_FAILED = ("exception_dump", "remote_error")


@dataclass
class GroupKeys:
    """The keys of one group on one kind of device."""

    path: str
    device: str
    attempt: int | None = None
    addresses: dict[int, bytes] = field(default_factory=dict)
    """rank -> the key of its address."""
    hosts: dict[int, bytes] = field(default_factory=dict)
    """rank -> the key of its host's name, which torch 2.1 writes first and apart."""
    communicators: int = 0
    timed_out: bool = False


@dataclass
class Keys:
    """All that is known by its name."""

    clients: bool = False
    groups: dict[tuple[str, str, int | None], GroupKeys] = field(default_factory=dict)
    roles: dict[str, dict[int, bytes]] = field(default_factory=dict)
    """Prefix -> node -> the key of what the agent told of itself."""
    shares: dict[str, dict[int, bytes]] = field(default_factory=dict)
    """Prefix -> node -> the key of the ranks that it was given."""
    states: dict[str, bytes] = field(default_factory=dict)
    """Run id -> the key of the rendezvous' state."""
    masters: dict[str, set[int]] = field(default_factory=dict)
    """Run id -> the rounds in which the store of the ranks was announced."""
    barriers: dict[str, bytes] = field(default_factory=dict)
    debug: dict[int, bytes] = field(default_factory=dict)
    leaving: list[bytes] = field(default_factory=list)

    def add(self, keys: Iterable[bytes]) -> None:
        """Sort these in."""
        for key in keys:
            if key == CLIENTS:
                self.clients = True
            elif len(key) <= MAX_NAME:
                self._add(key, key.decode("utf-8", "surrogateescape"))

    def _add(self, key: bytes, name: str) -> None:
        if match := _GROUP.fullmatch(name):
            self._add_group(key, match)
        elif match := _AGENT.fullmatch(name):
            table = self.roles if match["what"] == "role_info" else self.shares
            table.setdefault(match["run"], {})[int(match["node"])] = key
        elif match := _MASTER.fullmatch(name):
            self.masters.setdefault(match["run"], set()).add(int(match["round"]))
        elif match := _BARRIER.fullmatch(name):
            self.barriers[match["group"]] = key
        elif match := _DEBUG.fullmatch(name):
            self.debug[int(match["rank"])] = key
        elif _LEAVING.fullmatch(name):
            self.leaving.append(key)
        elif name.startswith(STATE) and "/" not in name[1:]:
            self.states[name.removeprefix(STATE)] = key

    def _add_group(self, key: bytes, match: re.Match[str]) -> None:
        attempt = int(match["attempt"]) if match["attempt"] else None
        place = (match["path"], match["device"], attempt)
        group = self.groups.setdefault(place, GroupKeys(*place))
        rank, rest = match["rank"], match["rest"]
        if rank is None:
            group.communicators += re.fullmatch(r"\d+(?::\d+)?", rest) is not None
            group.timed_out |= rest in _FAILED
        elif rank.startswith("rank_"):
            group.hosts[int(rank.removeprefix("rank_"))] = key
        else:
            group.addresses[int(rank)] = key


def foreseen_agents(run_id: str, nodes: int) -> Iterator[bytes]:
    """What agents of torchrun write with the static rendezvous; torch up to 2.3 leaves a slash out."""
    for node in range(nodes):
        for what in (f"role_info/{node}", f"role_info{node}", f"assigned_ranks/{node}"):
            yield f"/{run_id}/torchelastic/{what}".encode()


def foreseen_ranks(group: str, attempt: int | None, ranks: Iterable[int], old: bool) -> Iterator[bytes]:
    """Where the ranks of a group (its path) write their addresses."""
    for rank in ranks:
        for device in ("cpu", "cuda"):
            for name in (f"rank_{rank}", f"{rank}") if old else (f"{rank}",):
                yield f"{_before(attempt)}{group}//{device}//0/{name}".encode()


def foreseen_communicators(group: str, attempt: int | None) -> tuple[bytes, ...]:
    """Where NCCL's first ranks write the ids of the first communicators, and its watchdog that something failed."""
    return tuple(f"{_before(attempt)}{group}//cuda//{name}".encode() for name in ("0", "1", *_FAILED))


def _before(attempt: int | None) -> str:
    """What is before the path of a group: of torchrun's workers until 2.5 the number of the attempt."""
    return "/" if attempt is None else f"//worker/attempt_{attempt}/"
