"""The state of the rendezvous: what torch pickles is read, what anybody else might is refused, and costs nothing."""

from __future__ import annotations

import base64
import pickle
import tracemalloc
from datetime import datetime, timedelta, timezone

import pytest
from torch.distributed.elastic.rendezvous import dynamic_rendezvous as torchs

from distdoctor.hang.store.reader import EMPTY_STATE, decode_state
from distdoctor.logs.plain_pickle import MAX_BYTES, MAX_OPERATIONS
from distdoctor.model.facts import RendezvousView
from tests.helpers.pace import yardsticks

NOW = datetime.now(timezone.utc)
NODES = [torchs._NodeDesc(f"node{number}", 100 + number, 0) for number in range(4)]


def state(**changes: object) -> torchs._RendezvousState:
    made = torchs._RendezvousState()
    made.participants = {node: rank for rank, node in enumerate(NODES[:3])}
    made.last_heartbeats = {node: NOW - timedelta(seconds=5 * rank) for rank, node in enumerate(NODES)}
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def read(value: object, protocol: int = pickle.DEFAULT_PROTOCOL) -> RendezvousView:
    return decode_state("job7", base64.b64encode(pickle.dumps(value, protocol)), NOW)


@pytest.mark.parametrize("protocol", [4, 5])
def test_what_torch_pickles(protocol: int) -> None:
    view = read(state(round=3, complete=True, wait_list={NODES[3]}), protocol)
    assert not view.problem
    assert (view.round, view.complete, view.closed) == (3, True, False)
    assert [(one.node, one.host, one.pid, one.heartbeat_age) for one in view.agents] == [
        (0, "node0", 100, 0.0),
        (1, "node1", 101, 5.0),
        (2, "node2", 102, 10.0),
    ]
    assert [(one.node, one.host, one.heartbeat_age) for one in view.waiting] == [(None, "node3", 15.0)]


def test_ranks_mean_nothing_until_it_is_complete() -> None:
    assert {one.node for one in read(state()).agents} == {None}


def test_times_without_a_zone_are_utc_as_torch_2_5_wrote_them() -> None:
    old = {node: (NOW - timedelta(seconds=3)).replace(tzinfo=None) for node in NODES}
    view = read(state(last_heartbeats=old))
    assert [one.heartbeat_age for one in view.agents] == [3.0, 3.0, 3.0]


def test_a_thousand_nodes() -> None:
    nodes = [torchs._NodeDesc(f"node{number:04}.example.org", number, 0) for number in range(1024)]
    beats = {node: NOW - timedelta(seconds=number / 7) for number, node in enumerate(nodes)}
    view = read(state(participants=dict.fromkeys(nodes, 0), last_heartbeats=beats))
    assert not view.problem and len(view.agents) == 1024


def test_before_anybody_came() -> None:
    assert decode_state("job7", EMPTY_STATE, NOW) == RendezvousView("job7")


RAN: list[str] = []


class Runs:
    def __init__(self, *call: object) -> None:
        self.call = call

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self.call[0], self.call[1:]


def tuples_in_tuples() -> bytes:
    """As a key: each level hashes the one below twice, as often as two to the power of its depth."""
    return b"\x80\x04" + b"}" + b"K\x01" + b"q\x01h\x01\x86" * 100 + b"K\x00s."


HOSTILE = {
    "a call": pickle.dumps(Runs(RAN.append, "it ran")),
    "eval": pickle.dumps(Runs(eval, "RAN.append(1)")),
    "a call inside": pickle.dumps(state(participants={NODES[0]: Runs(eval, "1")})),
    "a class of ours": pickle.dumps(NOW.__class__),
    "a memo of four billion": b"\x80\x04Nr\xff\xff\xff\xff.",
    "a long of two gigabytes": b"\x80\x04\x8b\xff\xff\xff\x7f.",
    "digits": b"L" + b"9" * 900_000 + b"L\n.",
    "bytes that are not there": b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "a frame that is not there": b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "tuples in tuples": tuples_in_tuples(),
    "deep": b"\x80\x04)" + b"\x85" * 150_000 + b".",
    "many objects": b"\x80\x04" + b"}" * (MAX_BYTES - 10) + b".",
    "many operations": b"\x80\x04" + b"}" * (MAX_OPERATIONS - 10) + b".",
    "too large": b"\x80\x04B" + (2 * MAX_BYTES).to_bytes(4, "little") + bytes(2 * MAX_BYTES) + b".",
    "it holds itself": b"\x80\x04]\x94h\x00a.",
    "a persistent id": b"Px\n.",
    "an extension": b"\x80\x04\x82\x01.",
    "nothing": b"",
    "noise": bytes(range(256)) * 40,
    "a text": pickle.dumps("hello"),
    "a state of another kind": pickle.dumps(state(participants=[1, 2])),
    "a round that is a text": pickle.dumps(state(round="3")),
    "a round that is a bool": pickle.dumps(state(round=True)),
    "a huge round": pickle.dumps(state(round=1 << 4000)),
    "a day that is none": pickle.dumps(state()).replace(
        NOW.year.to_bytes(2, "big") + bytes([NOW.month, NOW.day]), b"\xff\xff\xff\xff"
    ),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_state_is_refused_and_takes_no_memory(data: bytes) -> None:
    value = base64.b64encode(data)
    tracemalloc.start()
    view = decode_state("job7", value, NOW)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert view.problem and not view.agents
    assert not RAN
    assert peak < 60e6


@pytest.mark.perf
@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_state_takes_no_long_time(data: bytes) -> None:
    value = base64.b64encode(data)
    assert yardsticks(lambda: decode_state("job7", value, NOW)) < 12


@pytest.mark.parametrize("value", [b"", b"\xff" * 100, b"not base64!", b"A" * 5])
def test_what_is_no_base64(value: bytes) -> None:
    assert decode_state("job7", value, NOW).problem


def test_names_are_cleaned() -> None:
    node = torchs._NodeDesc("\x1b[2Jnode\n" + "x" * 5000, 1, 0)
    (agent,) = read(state(participants={node: 0}, last_heartbeats={})).agents
    assert agent.host.startswith("\\x1b[2Jnode\\x0a") and agent.host.isprintable() and len(agent.host) <= 255
