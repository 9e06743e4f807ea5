"""Stores of older torch: what they hold has other names, and they cannot be asked for a list of them.

The keys are those that jobs of torch 2.1 to 2.9 wrote, as distributed_c10d.py, torchrun's agent and gloo of those
versions name them.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterable
from dataclasses import replace

import pytest

from distdoctor.hang.store.view import HostedBy, read_view
from distdoctor.model.facts import AgentView, GroupView, Member, StoreView
from tests.helpers.servers import serving

VALIDATE, GET, CHECK, COUNT, CANCEL, PING = 0, 3, 5, 7, 12, 13
NEW, MIDDLE, OLD = "2.5-2.9", "2.2-2.4", "<=2.1"
ENV, BY_AGENT, WORKER = "/default_pg/0//cpu//0", "/default_pg/0//cpu//0", "//worker/attempt_0/default_pg/0//cpu//0"


class Server:
    """A store of that generation: it drops whoever asks for what it does not know."""

    def __init__(self, generation: str, values: dict[str, bytes]) -> None:
        self.generation = generation
        self.values = {key.encode(): value for key, value in values.items()}
        known = {GET, CHECK, COUNT} if generation == OLD else {GET, CHECK, COUNT, VALIDATE, CANCEL}
        self.known = known | {PING} if generation == NEW else known

    def __call__(self, opened: socket.socket) -> None:
        """Answer one client until it is to be dropped."""
        read, old = opened.makefile("rb"), self.generation == OLD
        while kind := read.read(1):
            operation = kind[0] + 1 if old else kind[0]
            if operation not in self.known:
                return
            if operation in (VALIDATE, PING):
                asked = read.read(4)
                opened.sendall(asked if operation == PING else b"")
            elif operation == CANCEL:
                opened.sendall(b"\1")
            elif operation == COUNT:
                opened.sendall(struct.pack("=q", len(self.values)))
            else:
                count = struct.unpack("=Q", read.read(8))[0] if operation == CHECK else 1
                keys = [self._key(read) for _ in range(count)]
                if operation == CHECK:
                    opened.sendall(b"\0" if all(key in self.values for key in keys) else b"\1")
                else:
                    value = self.values[keys[0]]
                    opened.sendall(struct.pack("=Q", len(value)) + value)

    @staticmethod
    def _key(read: object) -> bytes:
        size = struct.unpack("=Q", read.read(8))[0]  # type: ignore[attr-defined]
        return read.read(size)  # type: ignore[attr-defined, no-any-return]


def socket_address(host: str, port: int) -> bytes:
    """A sockaddr_storage with an IPv4 address."""
    return struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(host) + bytes(120)


def ranks(before: str, numbers: Iterable[int], world: int) -> dict[str, bytes]:
    """What gloo of torch 2.2 and later writes: the host's name, an address and a number, and an id for each pair."""
    made = {}
    for rank in numbers:
        name = f"host{rank // 2}".encode()
        address = struct.pack("=Q", 136) + socket_address(f"10.0.0.{rank // 2 + 1}", 4000 + rank) + bytes(8)
        made[f"{before}/{rank}"] = struct.pack("=Q", len(name)) + name + address + bytes(8 * world)
    return made


def old_ranks(before: str, numbers: Iterable[int], whole: bool, world: int = 4) -> dict[str, bytes]:
    """What gloo of torch 2.1 writes: first the host's name, and once all others have, an address for each of them."""
    made = {f"{before}/rank_{rank}": f"host{rank // 2}".encode() for rank in numbers}
    for rank in numbers if whole else ():
        one = socket_address(f"10.0.0.{rank // 2 + 1}", 4000 + rank) + bytes(8)
        made[f"{before}/{rank}"] = one * (world - 1)
    return made


def agents(before: str, slash: str, shares: bool) -> dict[str, bytes]:
    """Return what two agents of torchrun with two ranks each tell each other."""
    told = {}
    for node in range(2):
        role = {"role": "default", "rank": node, "local_world_size": 2}
        told[f"{before}/torchelastic/role_info{slash}{node}"] = json.dumps(role).encode()
        if shares:
            told[f"{before}/torchelastic/assigned_ranks/{node}"] = json.dumps([2 * node, 4, 2 * node, 4]).encode()
    return told


def seen(
    generation: str, values: dict[str, bytes], *, world: int | None = 4, by: HostedBy = "", run: str = "none"
) -> StoreView:
    """Return what is told of such a store."""
    with serving(Server(generation, values)) as port:
        told = read_view("127.0.0.1", port, timeout=10.0, expected_world=world, hosted_by=by, run_id=run)
    assert (told.state, told.generation, told.problems) == ("read", generation, ())
    return told


@pytest.mark.parametrize(("generation", "world"), [(NEW, None), (NEW, 4), (MIDDLE, 4)])
def test_ranks_without_a_launcher(generation: str, world: int | None) -> None:
    told = seen(generation, {"init/": b"3", **ranks(ENV, (2, 3), 4)}, world=world, by="rank 0")
    assert told.joined == (0, 2, 3) and told.missing == (1,)
    assert [(one.rank, one.host, one.port, one.world) for one in told.default_group.members] == [  # type: ignore[union-attr]
        (2, "host1", 4002, 4), (3, "host1", 4003, 4)
    ]  # fmt: skip


def test_a_store_that_answers_in_many_small_segments_is_read_in_time() -> None:
    """As that of torch 2.4, which waits for each to be acknowledged (Nagle's algorithm)."""
    with serving(Server(MIDDLE, {"init/": b"3", **ranks(ENV, (2, 3), 4)})) as port:
        told = read_view("127.0.0.1", port, timeout=5.0, expected_world=None, hosted_by="rank 0", run_id="job")
    assert (told.state, told.joined) == ("read", (0, 2, 3))


@pytest.mark.parametrize("before", [ENV, WORKER])
def test_ranks_of_torch_2_1_write_their_hosts_first(before: str) -> None:
    told = seen(OLD, {"init/": b"3", **old_ranks(before, (2, 3), whole=False)}, by="rank 0")
    assert told.joined == (0, 2, 3) and told.missing == (1,) and told.host_of(3) == "host1"
    told = seen(OLD, {"init/": b"4", **old_ranks(before, range(4), whole=True)}, by="rank 0")
    assert told.joined == (0, 1, 2, 3) and told.missing == ()
    assert told.default_group and [one.port for one in told.default_group.members] == [4000, 4001, 4002, 4003]


@pytest.mark.parametrize(
    ("generation", "slash", "before", "shares"),
    [(MIDDLE, "", WORKER, False), (MIDDLE, "/", WORKER, True), (NEW, "/", WORKER, True), (NEW, "/", BY_AGENT, True)],
    ids=["2.2", "2.4", "2.5", "2.6"],
)
def test_agents_and_ranks_in_one_store(generation: str, slash: str, before: str, shares: bool) -> None:
    values = {"init/": b"5", **agents("/none", slash, shares), **ranks(before, (0, 2, 3), 4)}
    told = seen(generation, values, by="agent")
    assert told.joined == (0, 2, 3) and told.missing == (1,) and len(told.agents) == 2
    assert told.arrived == 3 and (told.node_of(1), told.host_of(1)) == (0, "host0")


def test_agents_and_ranks_of_torch_2_1() -> None:
    values = {"init/": b"5", **agents("/none", "", shares=False), **old_ranks(WORKER, (0, 2, 3), whole=False)}
    told = seen(OLD, values, by="agent")
    assert told.joined == (0, 2, 3) and told.missing == (1,) and len(told.agents) == 2


def test_whose_ranks_those_of_a_node_are_is_not_known_without_the_nodes_before_it() -> None:
    told_by = {name: value for name, value in agents("/none", "", shares=False).items() if name.endswith("1")}
    told = seen(MIDDLE, {"init/": b"2", **told_by, **ranks(WORKER, (2, 3), 4)}, by="agent")
    assert [(one.node, one.first_rank) for one in told.agents] == [(1, None)] and told.node_of(1) is None


def test_the_attempt_after_a_restart_counts() -> None:
    again = WORKER.replace("attempt_0", "attempt_1")
    told = seen(
        NEW, {"init/": b"9", **agents("/none", "/", True), **ranks(WORKER, range(4), 4), **ranks(again, (1,), 4)}
    )
    assert told.default_group and (told.default_group.attempt, told.default_group.joined) == (1, (1,))


@pytest.mark.parametrize("before", ["/default_pg/0//cuda//", "//worker/attempt_0/default_pg/0//cuda//"])
def test_nccl_writes_no_rank(before: str) -> None:
    told = seen(NEW, {"init/": b"6", **agents("/none", "/", True), f"{before}0": bytes(128)}, by="agent")
    assert told.default_group and told.default_group.communicators == 1 and told.missing == ()


def test_further_groups_are_read_too() -> None:
    values = {"init/": b"4", **ranks(ENV, range(4), 4), **ranks("/default_pg/0//1//cpu//0", (0, 1), 2)}
    told = seen(NEW, values)
    assert [(group.path, group.joined) for group in told.groups] == [
        ("default_pg/0", (0, 1, 2, 3)), ("default_pg/0//1", (0, 1))
    ]  # fmt: skip


def test_rank_0_serves_the_ranks_of_c10d_until_torch_2_4() -> None:
    """It counts who comes and writes its own address only when all have; the agents met elsewhere."""
    one = Member(2, "host0", "10.0.0.1", 4002)
    groups = (GroupView("default_pg/0", joined=(2,), members=(one,)),)
    view = StoreView("host0", 4711, "read", clients=2, hosted_by="rank 0", via="host0:29400", groups=groups)
    view = replace(view, agents=(AgentView(0, 3),), expected_world=3)
    assert view.joined == (0, 2) and view.missing == (1,)
