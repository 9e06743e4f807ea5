"""Tests of what node 0 may have a member do, and how large what others tell may be: beyond it nothing is done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from distdoctor.mesh.listener import LinkTarget
from distdoctor.model.bounds import MAX_RANKS_PER_NODE, MAX_ROUNDS, check_facts, count
from distdoctor.model.facts import BadFacts, NodeFacts, encode
from distdoctor.session.leader.inbox import Participant
from distdoctor.session.leader.stages import assign_ranks
from distdoctor.session.protocol.messages import EVENT_BYTES, Command, Event, Marker, read_event, read_marker
from distdoctor.session.protocol.trust import CommandValidator
from tests.facts_builder import healthy, node

HUGE = 10**18
RANKS: dict[str, tuple[int, ...]] = {"0": (0, 1), "1": (2, 3)}


def opening(stage: str, **changes: Any) -> Command:
    command = Command("stage", stage, seconds=5.0, world=4, ranks=RANKS, group_ranks=RANKS, node_ranks={"0": 0, "1": 1})
    return replace(command, **changes)


def target(member: int, address: str = "10.0.0.2", port: int = 40000) -> LinkTarget:
    return LinkTarget(member, f"host{member} 1 n", address, port, ("gloo",))


def orders(**changes: Any) -> CommandValidator:
    return CommandValidator(1, 2, 2, **{"one_host": False, **changes})


TRIAL = opening("trial", attempt=1, env={"1": {"GLOO_SOCKET_IFNAME": "eth0"}})
LADDER = (
    opening("store", limited=("10.0.0.2",)),
    opening("mesh", targets=(target(0), target(0, "10.0.1.2"), target(1, "10.0.0.3")), announced="host0.site"),
    Command("abort", "gloo"),
    opening("gloo", limited=("10.0.0.2",)),
    TRIAL,
    opening("nccl"),
    opening("search", attempt=1, groups={"0": 0, "1": 1}),
    opening("barrier"),
    opening("collective", mesh=(("dp", 2), ("tp", 2)), extra=3, limited=("10.0.0.2",)),
    Command("report", parts=1),
)


def test_a_whole_climb_is_admitted() -> None:
    one = orders()
    for command in LADDER:
        one.admit(command)


@pytest.mark.parametrize(
    "command", LADDER[:1] + LADDER[3:6] + LADDER[7:], ids=lambda command: command.stage or "report"
)
def test_nothing_is_done_twice(command: Command) -> None:
    one = orders()
    one.admit(command)
    with pytest.raises(BadFacts):
        one.admit(command)


def test_stages_are_climbed_in_their_order() -> None:
    for place, command in enumerate(LADDER[1:], start=1):
        if command.op == "stage":
            one = orders()
            one.admit(command)
            for earlier in LADDER[:place]:
                if earlier.op in ("stage", "skip"):
                    with pytest.raises(BadFacts):
                        one.admit(earlier)


@pytest.mark.parametrize(
    "command",
    [
        opening("environment"),
        opening("shell"),
        opening("store", world=HUGE),
        opening("store", world=0),
        opening("store", seconds=1e18),
        opening("store", seconds=-1.0),
        opening("store", attempt=1),
        opening("store", ranks={**RANKS, "1": tuple(range(5000))}),
        opening("store", ranks={**RANKS, "1": (2,)}),
        opening("store", ranks={**RANKS, "1": (2, HUGE)}),
        opening("store", group_ranks={**RANKS, "1": (2, 4)}),
        opening("store", group_ranks={"1": (2, 3)}, world=2),
        opening("store", node_ranks={"1": HUGE}),
        opening("store", env={"1": {"GLOO_SOCKET_IFNAME": "eth0"}}),
        opening("gloo", targets=(target(0),)),
        opening("gloo", announced="host0"),
        opening("gloo", announcer=0),
        opening("gloo", limited=("host0",)),
        opening("gloo", limited=("10.0.0.2",) * 5000),
        opening("barrier", limited=("10.0.0.2",)),
        opening("mesh", targets=(target(0),), announced="host0 -x"),
        opening("mesh", targets=(target(0),), announced="h" * 254),
        opening("mesh", targets=tuple(target(0, port=port) for port in (40000, 40001))),
        opening("mesh", targets=tuple(target(0, f"10.0.0.{n}") for n in range(1, 5))),
        opening("mesh", targets=tuple(target(n) for n in range(100))),
        opening("mesh", targets=(target(0, "127.0.0.1"),)),
        opening("mesh", targets=(target(0, "127.9.9.9"),)),
        opening("mesh", targets=(target(0, "::1"),)),
        opening("mesh", targets=(target(0, "::ffff:127.0.0.1"),)),
        opening("mesh", targets=(target(0, "0.0.0.0"),)),
        opening("mesh", targets=(target(0, "::"),)),
        opening("mesh", targets=(target(0, "224.0.0.1"),)),
        opening("mesh", targets=(target(0, "fe80::1%eth0"),)),
        opening("mesh", targets=(target(0, "gpu7.example"),)),
        opening("mesh", targets=(target(0, port=22),)),
        opening("mesh", targets=(target(0, port=70000),)),
        replace(TRIAL, env={"1": {"LD_PRELOAD": "/tmp/x.so"}}),
        replace(TRIAL, env={"1": {"PATH": "/tmp"}}),
        replace(TRIAL, env={"1": {"GLOO_DEVICE_TRANSPORT_TCP_TLS_PKEY": "/etc/shadow"}}),
        replace(TRIAL, env={"1": {"GLOO_SOCKET_IFNAME": "a\0b"}}),
        replace(TRIAL, env={"1": {"GLOO_SOCKET_IFNAME": "x" * 10_000}}),
        replace(TRIAL, attempt=2),
        opening("search", attempt=2, groups={"0": 0, "1": 1}),
        opening("search", attempt=1),
        opening("search", attempt=1, groups={"0": 0, "1": 1}, across=0),
        opening("search", attempt=1, groups={"0": 0, "1": 0}, across=0, apart=True),
        opening("search", attempt=1, groups={"0": 0, "5": 0}),
        opening("nccl", groups={"0": 0, "1": 1}),
        Command("report", parts=10**9),
        Command("report", parts=0),
        Command("skip", "store", reason="x" * 100_000),
    ],
    ids=lambda command: f"{command.op}-{command.stage}",
)
def test_what_no_node_0_orders_is_not_carried_out(command: Command) -> None:
    with pytest.raises(BadFacts):
        orders().admit(command)


def test_a_search_has_so_many_rounds_and_no_more() -> None:
    one = orders()
    for attempt in range(1, MAX_ROUNDS + 1):
        one.admit(opening("search", attempt=attempt, groups={"0": 0, "1": 1}))
    with pytest.raises(BadFacts, match="round"):
        one.admit(opening("search", attempt=MAX_ROUNDS + 1, groups={"0": 0, "1": 1}))


def test_several_nodes_on_one_host_meet_over_loopback() -> None:
    orders(one_host=True).admit(opening("mesh", targets=(target(0, "127.0.0.1"), target(1, "127.0.0.1"))))


def test_the_others_do_not_concern_a_member() -> None:
    """A stage that it is not in, and the variables of others."""
    others = {"0": (0, 1), "2": (2, 3)}
    orders().admit(opening("store", ranks=others, group_ranks=others))
    orders().admit(replace(TRIAL, env={"0": {"X": "y"}}))


@pytest.mark.parametrize(("nodes", "ranks"), [(1024, 8), (1, 64), (1, 512), (8192, 1)])
def test_large_clusters_are_within_all_bounds(nodes: int, ranks: int) -> None:
    facts = [node(f"host{n}", n, of=nodes, nproc=ranks) for n in range(nodes)]
    for one in facts:
        check_facts(one)
    members = [Participant(n, one, 40000) for n, one in enumerate(facts)]
    numbering = assign_ranks(members, facts[0].plan, members[0])
    last = CommandValidator(nodes - 1, ranks, nodes, one_host=False)
    command = opening(
        "store",
        world=numbering.world,
        ranks=dict(numbering.ranks),
        group_ranks=dict(numbering.group_ranks),
        node_ranks=dict(numbering.node_ranks),
    )
    last.admit(command)
    targets = tuple(target(n, f"10.{n >> 8}.{n & 255}.1") for n in range(nodes))
    last.admit(replace(command, stage="mesh", targets=targets))


def changed(**plan: Any) -> NodeFacts:
    one = node()
    return replace(one, plan=replace(one.plan, **plan))


@pytest.mark.parametrize(
    "facts",
    [
        changed(nproc_per_node=10**9),
        changed(nproc_per_node=0),
        changed(nproc_per_node=MAX_RANKS_PER_NODE + 1),
        changed(nnodes=10**12),
        changed(node_rank=-1),
        changed(world_size=HUGE),
        changed(world_size=10**4000),
        changed(master_port=65536),
        replace(node(), ranks=healthy(1)[0].ranks * 2),
        replace(node(), node_rank=HUGE),
        replace(node(), started_at=1e300),
        replace(node(), identity=replace(node().identity, hostname="x" * 5000)),
        replace(node(), near_misses=("GLOO_X",) * 100_000),
    ],
    ids=range(13),
)
def test_facts_that_nobody_can_have_seen_are_refused(facts: NodeFacts) -> None:
    with pytest.raises(BadFacts):
        read_event(encode(Event("hello", facts)))


def test_a_message_that_is_too_long_is_refused() -> None:
    one = node()
    whole = Event("hello", replace(one, variables={f"GLOO_{n}": "x" * 1000 for n in range(EVENT_BYTES // 1000 + 100)}))
    with pytest.raises(BadFacts, match="size in bytes"):
        read_event(encode(whole))


@pytest.mark.parametrize(
    ("run", "token"), [("x", ""), ("0" * 16, "no hex"), ("0" * 16, "00"), ("../../etc", "ab" * 32)]
)
def test_a_mark_with_other_than_hexadecimal_digits_is_none(run: str, token: str) -> None:
    with pytest.raises(BadFacts):
        read_marker(encode(Marker(run, token, "1")))
    assert read_marker(encode(Marker("0" * 16, "ab" * 32, "1"))).token == "ab" * 32


@pytest.mark.parametrize("value", [b"9" * 5000, b"-1", b"", b"1e9", b"\xd9\xa1", b" 1", b"x"])
def test_a_counter_that_was_not_counted_is_none(value: bytes) -> None:
    assert count(value) is None
    assert count(b"12") == 12


MARK = f".distdoctor-{'0a' * 16}"


@pytest.mark.parametrize(
    ("stage", "name", "admitted"),
    [("store", MARK, True), ("store", "../../etc/passwd", False), ("store", f"{MARK}/x", False), ("mesh", MARK, False)],
)
def test_files_are_looked_for_once_and_by_names_of_a_check(stage: str, name: str, admitted: bool) -> None:
    command = opening(stage, marks={"/data": name})
    if admitted:
        orders().admit(command)
    else:
        with pytest.raises(BadFacts):
            orders().admit(command)
