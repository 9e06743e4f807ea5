"""Facts survive a round trip through JSON, and nothing but facts comes out of a file."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distdoctor.model.facts import (
    BadFacts,
    FactsFile,
    Link,
    MeshFacts,
    NodeFacts,
    RankStage,
    RendezvousView,
    decode,
    encode,
)
from distdoctor.model.facts.codec import MOST_VALUES
from tests.checks.row import Row
from tests.checks.tables import ROWS
from tests.clusters.odd import CLUSTERS
from tests.facts_builder import node

# Text that JSON can hold: no lone surrogates.
text = st.text(st.characters(codec="utf-8"), max_size=12)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
stages = st.builds(
    RankStage,
    stage=text,
    status=st.sampled_from(["ok", "failed", "skipped", "error"]),
    seconds=st.floats(0, 1e9),
    error=st.none() | text,
    detail=st.dictionaries(text, plain, max_size=3),
)
st.register_type_strategy(RankStage, stages)
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))  # what JSON has


@given(st.builds(NodeFacts))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
def test_facts_survive_a_round_trip(facts: NodeFacts) -> None:
    assert decode(encode(facts), NodeFacts) == facts
    assert decode(json.dumps(json.loads(encode(facts))).encode(), NodeFacts) == facts


@pytest.mark.parametrize("row", [row for _, row in ROWS], ids=lambda row: row.name)
def test_the_facts_of_every_fault_survive_a_round_trip(row: Row) -> None:
    file = FactsFile(row.facts(), "0.1.0")
    assert decode(encode(file), FactsFile) == file


@pytest.mark.parametrize("name", CLUSTERS)
def test_the_facts_of_every_healthy_cluster_survive_a_round_trip(name: str) -> None:
    file = FactsFile(CLUSTERS[name], "0.1.0")
    assert decode(encode(file), FactsFile) == file


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_garbage_is_bad_facts(data: bytes) -> None:
    with pytest.raises(BadFacts):
        decode(data, FactsFile)


@given(plain)
@settings(deadline=None)
def test_any_other_json_is_bad_facts(value: object) -> None:
    with pytest.raises(BadFacts):
        decode(json.dumps(value).encode(), NodeFacts)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[" * 100_000,
        b'{"facts":' * 10_000,
        b'{"facts": [], "distdoctor": 3}',
        b'{"facts": [{"identity": {}}], "distdoctor": "1"}',
        b"\xff\xfe\x00",
        b'{"facts": [], "distdoctor": "\xff"}',
    ],
)
def test_hostile_files_are_bad_facts(data: bytes) -> None:
    with pytest.raises(BadFacts):
        decode(data, FactsFile)


def test_more_values_than_any_facts_have_are_not_made() -> None:
    """Sixteen megabytes of empty lists would take a thousand."""
    with pytest.raises(BadFacts, match="more than 8000000 values"):
        decode(b'{"a":[' + b"[]," * MOST_VALUES + b"0]}", FactsFile)


@pytest.mark.parametrize("place", ["identity", "plan"])
def test_a_facts_file_with_a_wrong_type_says_where(place: str) -> None:
    value = json.loads(encode(node()))
    value[place] = 7
    with pytest.raises(BadFacts, match=rf"\$\.{place}"):
        decode(json.dumps(value).encode(), NodeFacts)


def test_a_newer_files_extra_fields_are_let_be() -> None:
    """Changes of the format are additive."""
    value = {**json.loads(encode(node())), "new_field": [1]}
    assert decode(json.dumps(value).encode(), NodeFacts) == node()


def test_the_mesh_of_a_file_of_0_1_0_is_read() -> None:
    """It had a list of all processes tried, and a stalled link's payload in its seconds."""
    old = {"to": "host1 1 n", "address": "10.0.0.2", "port": 4, "use": ["gloo"], "outcome": "stalled"}
    value = {**json.loads(encode(node())), "mesh": {"good": 1, "tried": ["a 1 n"], "bad": [{**old, "seconds": 4000.0}]}}
    mesh = decode(json.dumps(value).encode(), NodeFacts).mesh
    assert mesh is not None and [link.swallowed for link in mesh.bad] == [4000]
    now = Link("host1 1 n", "10.0.0.2", 4, ("gloo",), "stalled", seconds=2.2, payload=16000)
    assert (now.swallowed, replace(now, payload=None).swallowed) == (16000, None)
    assert replace(now, outcome="no-answer", payload=None, seconds=4000.0).swallowed is None
    assert b"tried" not in encode(MeshFacts(1, (now,)))


def test_a_rendezvous_with_a_field_that_is_gone_is_read() -> None:
    """``closes_in``, which nothing read."""
    old = {"run_id": "job7", "round": 2, "complete": True, "closes_in": 12.0}
    assert decode(json.dumps(old).encode(), RendezvousView) == RendezvousView("job7", 2, True)


def test_the_key_tells_processes_apart() -> None:
    one = node()
    assert len({one.key, node(pid=2).key, node(netns="x").key, node("other").key}) == 4
    assert replace(one, started_at=5.0).key == one.key
