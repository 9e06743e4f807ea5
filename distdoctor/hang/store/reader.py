"""Reader of a job's store: key names, values, and the view that they make together. Nothing that peers wrote is
trusted."""

from __future__ import annotations

import asyncio
import base64
import binascii
import ipaddress
import json
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, TypeVar

from distdoctor.logs.plain_pickle import MAX_BYTES, BadPickle, Made, Name, Pairs, load
from distdoctor.model.facts import AgentView, GroupView, Member, RendezvousView, StoreView
from distdoctor.model.facts.job import MOST_MEMBERS
from distdoctor.model.text import fit
from distdoctor.store.client import Oversize
from distdoctor.store.read_only import OLD, ReadOnlyStore

_SMALL = 4096
_MAX_BLOB = 8 * 1024 * 1024
_MAX_BLOBS = 32 * 1024 * 1024
"""Most bytes of all the addresses together; an address has eight for each rank."""
_EXPECTED_RANKS = 256
_EXPECTED_NODES = 64
_EXPECTED_GROUPS = 8
_EXPECTED_ATTEMPTS = 4
_MAX_RENDEZVOUS = 8
_MAX_ROUNDS = 64
_CHUNK = 5000


class StoreReading:
    """Facts read so far; ``view()`` may be called at any time."""

    def __init__(self, found: StoreView, run_id: str) -> None:
        self.found = found
        self._run_id = run_id
        self._keys = StoreKeys()
        self._values: dict[bytes, bytes] = {}
        self._members: dict[bytes, Member] = {}
        self._rendezvous: list[RendezvousView] = []
        self._problems: list[str] = []

    def problem(self, text: str) -> None:
        """Note something that was not read."""
        self._problems.append(fit(text))

    async def read(self, store: ReadOnlyStore) -> None:
        """Read everything there is. Raises StoreError if the store stops answering."""
        old = self.found.generation == OLD
        names = await self._listed(store)
        # After the list, which breaks the connection of a server that does not know it.
        self.found = replace(self.found, keys=await store.count(), complete_list=names is not None)
        if self.found.generation == "2.5+":
            self.found = replace(self.found, generation="2.10+" if names is not None else "2.5-2.9")
        if names is None:
            await self._foresee(store, old)
        else:
            for start in range(0, len(names), _CHUNK):
                self._keys.add(names[start : start + _CHUNK])
                await asyncio.sleep(0)
        await self._small_values(store)
        await self._read_rendezvous(store)
        await self._addresses(store)
        self.found = replace(self.found, state="read")

    async def _listed(self, store: ReadOnlyStore) -> list[bytes] | None:
        try:
            return await store.keys()
        except Oversize as err:
            self.problem(str(err))
            return None

    async def _foresee(self, store: ReadOnlyStore, old: bool) -> None:
        """Request the keys whose names are predictable."""
        run = self._run_id
        await self._ask(store, [CLIENTS, f"{STATE}{run}".encode(), *expected_agent_keys(run, _EXPECTED_NODES)])
        group = "default_pg/0"
        attempts = (None, *range(_EXPECTED_ATTEMPTS)) if self._keys.roles or run != "none" or old else (None, 0)
        for attempt in attempts:
            await self._ask(store, expected_communicator_keys(group, attempt))
            known = self.found.expected_world or _EXPECTED_RANKS
            here = await self._ask(store, expected_rank_keys(group, attempt, range(known), old))
            if here and not self.found.expected_world:
                await self._addresses(store)
                world = max((one.world or 0 for one in self._members.values()), default=0)
                if _EXPECTED_RANKS < world <= MAX_WORLD:
                    await self._ask(store, expected_rank_keys(group, attempt, range(_EXPECTED_RANKS, world), old))
            if here:
                for number in range(1, _EXPECTED_GROUPS):
                    ranks = range(min(known, _EXPECTED_RANKS))
                    if not await self._ask(store, expected_rank_keys(f"{group}//{number}", attempt, ranks, old)):
                        break

    async def _ask(self, store: ReadOnlyStore, names: Iterable[bytes]) -> bool:
        wanted = [name for name in names if len(name) <= 512]
        here = [name for name, there in zip(wanted, await store.has(wanted), strict=True) if there]
        self._keys.add(here)
        return bool(here)

    async def _small_values(self, store: ReadOnlyStore) -> None:
        keys = self._keys
        tables = [*keys.roles.values(), *keys.shares.values(), keys.debug]
        wanted = [CLIENTS] if keys.clients else []
        wanted += [key for table in tables for _, key in sorted(table.items())[:MOST_MEMBERS]]
        wanted += [*list(keys.barriers.values())[:MOST_MEMBERS], *keys.leaving[:MOST_MEMBERS]]
        self._values.update(await store.values(wanted, _SMALL))

    async def _read_rendezvous(self, store: ReadOnlyStore) -> None:
        states = dict(list(self._keys.states.items())[:_MAX_RENDEZVOUS])
        values = await store.values(list(states.values()), MAX_VALUE)
        for run, key in states.items():
            if key not in values:
                self._rendezvous.append(RendezvousView(fit(run), problem="it is too large"))
                continue
            state = decode_state(fit(run), values[key], datetime.now(timezone.utc))
            rounds = self._keys.masters.get(run, set())
            if not self.found.complete_list and state.round is not None:
                rounds = set(range(max(0, state.round - _MAX_ROUNDS), state.round + 1))
            newest = sorted(rounds, reverse=True)[:_MAX_ROUNDS]
            self._rendezvous.append(replace(state, master=await self._master(store, run, newest)))
            if not self.found.complete_list and newest:
                prefixes = [f"torch.rendezvous.{run}.{number}" for number in newest[:4]]
                nodes = max(1, len(state.agents))
                await self._ask(store, (key for name in prefixes for key in expected_agent_keys(name, nodes)))
                await self._small_values(store)

    async def _master(self, store: ReadOnlyStore, run: str, rounds: list[int]) -> str:
        """Return ``host:port`` of the newest round that has one: torch 2.6 and later write it in the first only."""
        for number in rounds:
            prefix = f"{STATE}{run}.{number}/MASTER_".encode("utf-8", "surrogateescape")
            announced = await store.values([prefix + b"ADDR", prefix + b"PORT"], _SMALL)
            if len(announced) == 2:
                address = host_and_port(announced[prefix + b"ADDR"], announced[prefix + b"PORT"])
                return f"{address[0]}:{address[1]}" if address else ""
        return ""

    async def _addresses(self, store: ReadOnlyStore) -> None:
        """Read the addresses that ranks wrote, the default group's first; of the largest jobs only a part."""
        budget = _MAX_BLOBS
        groups = sorted(self._keys.groups.values(), key=lambda one: (one.path.count("//"), one.path))
        for group in (*groups, *self._keys.private.values()):
            wanted = [(rank, key) for rank, key in sorted(group.addresses.items()) if key not in self._members]
            wanted, size = wanted[:MOST_MEMBERS], 256
            hosts = await store.values([key for _, key in sorted(group.hosts.items())[:MOST_MEMBERS]], _SMALL)
            while wanted and budget > 0:
                part, wanted = wanted[: max(1, 65536 // size)], wanted[max(1, 65536 // size) :]
                values = await store.values([key for _, key in part], _MAX_BLOB)
                for rank, key in part:
                    host = hosts.get(group.hosts.get(rank, b""), b"")
                    self._members[key] = member(rank, values.get(key, b""), host)
                total = sum(map(len, values.values()))
                budget, size = budget - total, max(256, total // max(1, len(values)))
            for rank, key in group.hosts.items():
                if rank not in group.addresses and key in hosts:
                    self._members[key] = Member(rank, fit(hosts[key].decode("utf-8", "backslashreplace")))

    def view(self) -> StoreView:
        """Return everything that was read."""
        keys, values = self._keys, self._values
        agents = self._agents()
        hosted_by = self.found.hosted_by or ("agent" if agents and not self._rendezvous else "")
        groups, private = (map(self._group, table.values()) for table in (keys.groups, keys.private))
        return replace(
            self.found,
            clients=parse_counter(values.get(CLIENTS, b"")),
            agents=agents,
            hosted_by=hosted_by,
            groups=tuple(group for group in groups if group.joined or group.communicators or group.timed_out),
            private_groups=tuple(one for one in private if any(member.address for member in one.members)),
            rendezvous=tuple(self._rendezvous),
            barriers={
                fit(name): number
                for name, key in list(keys.barriers.items())[:MOST_MEMBERS]
                if (number := parse_counter(values.get(key, b""))) is not None
            },
            debug_servers={
                rank: address for rank, key in sorted(keys.debug.items()) if (address := url(values.get(key, b"")))
            },
            leaving=max((parse_counter(values.get(key, b"")) or 0 for key in keys.leaving), default=0),
            problems=tuple(dict.fromkeys(self._problems)),
        )

    def _group(self, group: GroupKeys) -> GroupView:
        joined = sorted({*group.addresses, *group.hosts})
        keys = (group.addresses.get(rank, group.hosts.get(rank, b"")) for rank in joined)
        members = tuple(self._members[key] for key in keys if key in self._members)
        path = fit(group.path)
        accelerated = group.device != "cpu"
        return GroupView(
            path,
            fit(group.device),
            tuple(joined),
            members[:MOST_MEMBERS],
            communicators=group.communicators if accelerated else 0,
            timed_out=accelerated and group.timed_out,
            attempt=group.attempt,
        )

    def _agents(self) -> tuple[AgentView, ...]:
        """Return the agents of the newest prefix under which they assign ranks: the last round of a rendezvous, or the
        run's."""
        keys, values = self._keys, self._values
        if not keys.roles:
            return ()
        run = max(keys.roles, key=_round)
        roles, shares = keys.roles[run], keys.shares.get(run, {})
        hosts = {agent.node: agent for one in self._rendezvous for agent in one.agents if agent.node is not None}
        found = []
        for node, key in sorted(roles.items())[:MOST_MEMBERS]:
            first, world = share(values.get(shares.get(node, b""), b""))
            known = hosts.get(node, AgentView())
            ranks = role(values.get(key, b""))
            found.append(replace(known, node=node, ranks=ranks, first_rank=first, world=world))
        return tuple(found) if shares else tuple(_shared_out(found))


def _shared_out(agents: Iterable[AgentView]) -> Iterator[AgentView]:
    """Yield the agents with their ranks once all have joined.

    Up to torch 2.3 each agent counts by itself the ranks of those before it, and writes nothing
    (torch/distributed/elastic/agent/server/api.py: ``_get_ranks``).
    """
    first: int | None = 0
    for number, one in enumerate(agents):
        first = first if one.node == number else None
        yield replace(one, first_rank=first)
        first = first + one.ranks if first is not None and one.ranks is not None else None


def _round(prefix: str) -> int:
    number = prefix.rpartition(".")[2]
    return int(number) if prefix.startswith(STATE[1:]) and number.isdecimal() else -1


# Names of the keys in a job's store on the wire, from torch 2.1 to 2.13.
#
# distributed_c10d.py and rendezvous.py make a PrefixStore of a PrefixStore: ``default_pg/`` > ``<group>/`` >
# ``<device>/`` > gloo's ``<number>`` > the rank, each joined to the next with a slash. torchrun's workers had
# ``/worker/attempt_<n>/`` in front until 2.5. static_tcp_rendezvous.py and dynamic_rendezvous.py: ``<run id>`` or
# ``torch.rendezvous.<run id>.<round>`` in front of the agents' keys.


CLIENTS = b"init/"
MAX_NAME = 400
"""Most characters of a key that is requested."""
STATE = "/torch.rendezvous."
_GROUP = re.compile(
    r"/(?:/worker/attempt_(?P<attempt>\d{1,6})/)?(?P<path>\S{1,300}?)//(?P<device>[a-z]\w{0,20})//(?P<rest>[^/]{1,40})"
    r"(?:/(?P<rank>(?:rank_)?\d{1,8}))?"
)
_PRIVATE = re.compile(r"/(?P<path>\S{1,300})/\d{1,4}/(?P<rank>\d{1,6})")
"""Key of a ``ProcessGroupGloo`` of the program's own: ``<its prefix>/<number>/<rank>``, as vLLM's among its cores
(distributed/utils.py: ``stateless_init_torch_distributed_process_group``)."""
_MOST_PRIVATE = 64
_AGENT = re.compile(r"/(?P<run>.{1,255})/torchelastic/(?P<what>role_info|assigned_ranks)/?(?P<node>\d{1,7})", re.DOTALL)
_MASTER = re.compile(r"/torch\.rendezvous\.(?P<run>.{1,255})\.(?P<round>\d{1,9})/MASTER_(?:ADDR|PORT)", re.DOTALL)
_BARRIER = re.compile(r"/.{0,300}store_based_barrier_key:(?P<group>[^:]{1,100})", re.DOTALL)
_DEBUG = re.compile(r"/debug_server/rank(?P<rank>\d{1,8})")
_LEAVING = re.compile(r"/.{1,255}/torchelastic/agent/terminal_state/num_members", re.DOTALL)
_FAILED = ("exception_dump", "remote_error")


@dataclass
class GroupKeys:
    """Keys of one group on one kind of device."""

    path: str
    device: str
    attempt: int | None = None
    addresses: dict[int, bytes] = field(default_factory=dict)
    """Rank -> the key of its address."""
    hosts: dict[int, bytes] = field(default_factory=dict)
    """Rank -> the key of its hostname, which torch 2.1 writes first and apart."""
    communicators: int = 0
    timed_out: bool = False


@dataclass
class StoreKeys:
    """All keys that are recognized by name."""

    clients: bool = False
    groups: dict[tuple[str, str, int | None], GroupKeys] = field(default_factory=dict)
    private: dict[str, GroupKeys] = field(default_factory=dict)
    """Prefix -> a possible group of the program's own."""
    roles: dict[str, dict[int, bytes]] = field(default_factory=dict)
    """Prefix -> node -> the key of the agent's own role."""
    shares: dict[str, dict[int, bytes]] = field(default_factory=dict)
    """Prefix -> node -> the key of the ranks assigned to it."""
    states: dict[str, bytes] = field(default_factory=dict)
    """Run id -> the key of the rendezvous' state."""
    masters: dict[str, set[int]] = field(default_factory=dict)
    """Run id -> the rounds in which the store of the ranks was announced."""
    barriers: dict[str, bytes] = field(default_factory=dict)
    debug: dict[int, bytes] = field(default_factory=dict)
    leaving: list[bytes] = field(default_factory=list)

    def add(self, keys: Iterable[bytes]) -> None:
        """Add these keys."""
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
        elif (match := _PRIVATE.fullmatch(name)) and (
            match["path"] in self.private or len(self.private) < _MOST_PRIVATE
        ):
            group = self.private.setdefault(match["path"], GroupKeys(match["path"], "cpu"))
            group.addresses[int(match["rank"])] = key

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


def expected_agent_keys(run_id: str, nodes: int) -> Iterator[bytes]:
    """Yield the keys of torchrun's agents with the static rendezvous; torch up to 2.3 leaves a slash out."""
    for node in range(nodes):
        for what in (f"role_info/{node}", f"role_info{node}", f"assigned_ranks/{node}"):
            yield f"/{run_id}/torchelastic/{what}".encode()


def expected_rank_keys(group: str, attempt: int | None, ranks: Iterable[int], old: bool) -> Iterator[bytes]:
    """Yield the keys under which the ranks of a group (its path) write their addresses."""
    for rank in ranks:
        for device in ("cpu", "cuda"):
            for name in (f"rank_{rank}", f"{rank}") if old else (f"{rank}",):
                yield f"{_before(attempt)}{group}//{device}//0/{name}".encode()


def expected_communicator_keys(group: str, attempt: int | None) -> tuple[bytes, ...]:
    """Return the keys of NCCL's first communicator ids, and of its watchdog's failure report."""
    return tuple(f"{_before(attempt)}{group}//cuda//{name}".encode() for name in ("0", "1", *_FAILED))


def _before(attempt: int | None) -> str:
    """Return the prefix of a group's path: torchrun's workers until 2.5 had the number of the attempt."""
    return "/" if attempt is None else f"//worker/attempt_{attempt}/"


# Values that ranks and agents write into a job's store, parsed as untrusted data.
#
# gloo/transport/tcp/context.cc ``Rank::bytes`` (torch 2.2 and later): u64 length and hostname; u64 136,
# sockaddr_storage of 128 bytes and an i64; then an i64 for each rank of the group. Its unused bytes are uninitialized
# memory and are never printed. Before, ``rank_<r>`` is the hostname, and ``<r>`` an address of 136 bytes for each other
# rank.


MAX_WORLD = 1_000_000
_ADDRESS = 136
_AF_INET, _AF_INET6 = 2, 10


def member(rank: int, value: bytes, host: bytes = b"") -> Member:
    """Return the value of ``rank``; only its number if the format is unknown (another backend, another system).

    ``host``: its hostname, if that was written apart (torch 2.1).
    """
    if len(value) >= 16:
        (length,) = struct.unpack_from("=Q", value)
        rest = len(value) - 16 - length
        if 0 < length < 1024 and rest >= _ADDRESS and rest % 8 == 0:
            (size,) = struct.unpack_from("=Q", value, 8 + length)
            if size == _ADDRESS:
                ids = value[16 + length + _ADDRESS :]
                # Pairs that are made on first use have no ids yet (TORCH_GLOO_LAZY_INIT, torch 2.8).
                world = len(ids) // 8 or None
                return Member(rank, _text(value[8 : 8 + length]), *_address(value[16 + length :]), world)
    if host and value and len(value) % _ADDRESS == 0:
        return Member(rank, _text(host), *_address(value), len(value) // _ADDRESS + 1)
    return Member(rank, _text(host))


def parse_counter(value: bytes) -> int | None:
    """Return a counter: decimal digits."""
    return int(value) if value.isdigit() and len(value) <= 18 else None


def role(value: bytes) -> int | None:
    """Return the number of ranks that an agent starts: ``{"role": ..., "rank": ..., "local_world_size": ...}``."""
    fields = _json(value)
    number = fields.get("local_world_size") if isinstance(fields, dict) else None
    return _rank_count(number)


def share(value: bytes) -> tuple[int | None, int | None]:
    """Return the first rank of an agent and the number of all ranks: ``[first, world, first of the role, its
    world]``."""
    fields = _json(value)
    if not isinstance(fields, list) or len(fields) != 4:
        return None, None
    return (fields[0] if _rank_count(fields[0]) is not None else None), _rank_count(fields[1])


def host_and_port(address: bytes, port: bytes) -> tuple[str, int] | None:
    """Return MASTER_ADDR and MASTER_PORT as an address, None if they are none."""
    number = parse_counter(port)
    text = address.decode("utf-8", "replace")
    if not number or number > 65535 or not text or len(text) > 255 or not _is_host(text):
        return None
    return text, number


def url(value: bytes) -> str:
    """Return an address of HTTP, empty if it is none."""
    text = value.decode("utf-8", "replace")
    return fit(text) if text.startswith("http://") else ""


def _is_host(text: str) -> bool:
    return all(char.isascii() and (char.isalnum() or char in "-_.:") for char in text)


def _json(value: bytes) -> object:
    if len(value) > 4096:
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _rank_count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_WORLD else None


def _text(value: bytes) -> str:
    return fit(value.rstrip(b"\0").decode("utf-8", "backslashreplace"))


def _address(value: bytes) -> tuple[str, int | None]:
    """Return host and port of a sockaddr_storage: the family in this machine's byte order, port and address in the
    network's."""
    (family,) = struct.unpack_from("=H", value)
    (port,) = struct.unpack_from("!H", value, 2)
    if family == _AF_INET:
        return str(ipaddress.IPv4Address(value[4:8])), port
    if family == _AF_INET6:
        return str(ipaddress.IPv6Address(value[8:24])), port
    return "", None


# State of torchrun's c10d rendezvous in the endpoint's store. elastic/rendezvous/c10d_rendezvous_backend.py: the value
# is base64 of a pickle of dynamic_rendezvous._RendezvousState. Times are naive UTC until torch 2.5 and aware from 2.6
# on.


T = TypeVar("T")
EMPTY_STATE = b"Y2FuaW1hZGFt"
"""Placeholder of the first agent before there is a state."""
MAX_VALUE = MAX_BYTES // 3 * 4
MAX_AGENTS = 20_000
_TORCH = "torch.distributed.elastic.rendezvous.dynamic_rendezvous"
_NAMES = (
    (_TORCH, "_RendezvousState"),
    (_TORCH, "_NodeDesc"),
    *(("datetime", name) for name in ("datetime", "timezone", "timedelta")),
)
_DATETIME_BYTES = 10


def decode_state(run_id: str, value: bytes, now: datetime) -> RendezvousView:
    """Return the state in ``value``; ``problem`` gives the reason if there is none."""
    view = RendezvousView(run_id)
    if value == EMPTY_STATE:
        return view
    try:
        state = load(base64.b64decode(value, validate=True), _NAMES)
        return _view(view, _fields(state, "_RendezvousState"), now)
    except binascii.Error:
        return replace(view, problem="not base64")
    except BadPickle as err:
        return replace(view, problem=str(err))


def _view(view: RendezvousView, state: dict[str, Any], now: datetime) -> RendezvousView:
    complete = _of(bool, state.get("complete"))
    participants = _of(Pairs, state.get("participants")).items[:MAX_AGENTS]
    beats = _of(Pairs, state.get("last_heartbeats")).items[:MAX_AGENTS]
    ages = {_node(key)[:3]: (now - _moment(value)).total_seconds() for key, value in beats}

    def agent(key: Any, rank: int | None = None) -> AgentView:
        host, pid, local = _node(key)
        age = ages.get((host, pid, local))
        return AgentView(rank, host=host, pid=pid, heartbeat_age=None if age is None else round(age, 1))

    waiting = [*_of(list, state.get("wait_list")), *_of(list, state.get("redundancy_list") or [])][:MAX_AGENTS]
    return RendezvousView(
        view.run_id,
        round=_integer(state.get("round")),
        complete=complete,
        closed=_of(bool, state.get("closed")),
        agents=tuple(
            sorted(
                (agent(key, _integer(rank) if complete else None) for key, rank in participants),
                key=lambda one: (one.node or 0, one.host, one.pid or 0),
            )
        ),
        waiting=tuple(agent(key) for key in waiting),
    )


def _fields(value: Any, name: str) -> dict[str, Any]:
    """Return the attributes of an object of the class ``name``."""
    made = _of(Made, value)
    state = made.state
    if isinstance(state, list) and len(state) == 2:  # (those in __dict__, those in __slots__)
        state = state[0] if state[0] is not None else state[1]
    if made.of.name != name:
        raise BadPickle(f"a {made.of.name} where a {name} belongs")
    return {key: item for key, item in _of(Pairs, state).items if isinstance(key, str)}


def _node(value: Any) -> tuple[str, int, int]:
    fields = _fields(value, "_NodeDesc")
    return fit(_of(str, fields.get("addr"))), _integer(fields.get("pid")), _integer(fields.get("local_id"))


def _moment(value: Any) -> datetime:
    """Return a datetime from its ten bytes (datetime.__reduce__), in UTC whatever its zone (torch writes no other)."""
    made = _of(Made, value)
    arguments = _of(list, made.arguments)
    packed = arguments[0] if arguments else None
    if made.of != Name("datetime", "datetime") or not isinstance(packed, bytes) or len(packed) != _DATETIME_BYTES:
        raise BadPickle("a time that is none")
    month, day, hour, minute, second = packed[2:7]
    year, micro = int.from_bytes(packed[:2], "big"), int.from_bytes(packed[7:], "big")
    try:
        return datetime(year, month, day, hour, minute, second, micro, timezone.utc)
    except ValueError as err:
        raise BadPickle(f"a time that is none: {err}") from None


def _integer(value: Any) -> int:
    return int(_of(int, value))


def _of(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise BadPickle(f"a {type(value).__name__} where a {kind.__name__} belongs")
    return value
