"""Messages between the nodes: what is not of the right shape is refused before anything uses it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distdoctor.mesh.listener import LinkTarget
from distdoctor.model.facts import BadFacts, NodeFacts, decode, encode
from distdoctor.model.plan import Plan
from distdoctor.model.report import Report
from distdoctor.session.protocol.messages import PROTOCOL, Command, Event, Marker, OtherProtocol, RunKeys, read_marker
from tests.facts_builder import healthy, node

EVERYTHING = Command(
    "stage",
    "mesh",
    attempt=1,
    seconds=2.5,
    world=4,
    group_ranks={"1": (0, 1)},
    ranks={"1": (0, 1)},
    node_ranks={"1": 0},
    targets=(LinkTarget(2, "host1 17 net:[1]", "10.0.0.2", 4711, ("gloo", "primary")),),
    lead=1,
    env={"1": {"GLOO_SOCKET_IFNAME": None, "GLOO_X": "y"}},
)


def test_messages_survive_the_way() -> None:
    for facts in healthy(2):
        event = Event("hello", facts, mesh_port=4711)
        assert decode(encode(event), Event) == event
    assert decode(encode(EVERYTHING), Command) == EVERYTHING
    marker = Marker("aa", "bb", "1.0")
    assert decode(encode(marker), Marker) == marker


@pytest.mark.parametrize("mark", [Marker("0" * 16, "", "0.2.0", PROTOCOL + 1), {"version": "0.2.0", "protocol": 99}])
def test_the_mark_of_another_protocol_says_whose_it_is(mark: object) -> None:
    """Whatever else stands in it."""
    with pytest.raises(OtherProtocol, match=r"^0\.2\.0$"):
        read_marker(encode(mark) if isinstance(mark, Marker) else json.dumps(mark).encode())


def altered(message: object, path: list[str | int], value: Any) -> bytes:
    """``message`` as JSON with one value replaced."""
    whole = json.loads(encode(message))
    inner = whole
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return json.dumps(whole).encode()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["op"], "exec"),
        (["op"], None),
        (["stage"], 5),
        (["seconds"], "1e9"),
        (["attempt"], 1.5),
        (["world"], "4"),
        (["ranks"], [[0, 1]]),
        (["ranks", "1"], "01"),
        (["ranks", "1"], [0, "1"]),
        (["node_ranks", "1"], None),
        (["targets"], {}),
        (["targets", 0, "port"], "22"),
        (["targets", 0, "use"], [1]),
        (["targets", 0, "address"], None),
        (["env", "1", "GLOO_X"], 1),
        (["env", "1"], ["PATH"]),
        (["parts"], -0.5),
    ],
)
def test_a_command_with_a_wrong_type_is_refused(path: list[str | int], value: Any) -> None:
    with pytest.raises(BadFacts):
        decode(altered(EVERYTHING, path, value), Command)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["kind"], "shutdown"),
        (["ok"], "yes"),
        (["mesh_port"], "4711"),
        (["facts"], []),
        (["facts", "plan", "master_port"], "29500"),
        (["facts", "plan", "started"], "twice"),
        (["facts", "identity", "pid"], None),
        (["facts", "ranks", 0, "local_rank"], "0"),
        (["facts", "variables"], {"PATH": 1}),
    ],
)
def test_an_event_with_a_wrong_type_is_refused(path: list[str | int], value: Any) -> None:
    with pytest.raises(BadFacts):
        decode(altered(Event("hello", node()), path, value), Event)


@pytest.mark.parametrize("kind", [Event, Command, Marker, NodeFacts, Report])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\xff\xfe\x00",
        b"null",
        b"[]",
        b"{",
        b'"x"',
        b"cos\nsystem\n(S'true'\ntR.",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"op": "stage", "seconds": NaN}',
    ],
    ids=lambda data: repr(data[:8]),
)
def test_what_is_no_message_is_refused(kind: type, data: bytes) -> None:
    with pytest.raises(BadFacts):
        decode(data, kind)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    for kind in (Event, Command, Marker):
        try:
            decode(data, kind)
        except BadFacts:
            pass


def test_fields_of_a_later_version_are_passed_over() -> None:
    whole = json.loads(encode(EVERYTHING))
    assert decode(json.dumps({**whole, "later": [1]}).encode(), Command) == EVERYTHING


def test_under_an_agent_each_run_and_restart_has_a_marker_of_its_own() -> None:
    assert RunKeys.marker(Plan()) == RunKeys.marker(Plan(run_id="x")) == "distdoctor/marker"
    keys = {RunKeys.marker(Plan(agent_store=True, run_id=run, restart=turn)) for run in "ab" for turn in (0, 1)}
    assert len(keys) == 4


def test_every_key_of_a_run_is_its_own_and_below_the_runs_name() -> None:
    keys = RunKeys("0123")
    found = [keys.members, keys.tick, keys.bye, keys.done]
    found += [make(number) for make in (keys.beat, keys.command, keys.report) for number in range(2)]
    found += [keys.message(member, place) for member in range(2) for place in range(2)]
    found += [keys.prefix(stage, attempt) for stage in ("store", "gloo") for attempt in range(2)]
    assert len(set(found)) == len(found)
    assert all(key.startswith("distdoctor/0123/") for key in found)
    assert [keys.place(key) for key in (keys.message(3, 0), keys.command(7))] == ["m/3/0", "c/7"]
    assert not set(found) & {getattr(RunKeys("4567"), name) for name in ("members", "tick", "bye", "done")}
