"""Real runs against a hostile node 0 and against hostile members, with both of torch's stores."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distdoctor.mesh.listener import LinkTarget
from distdoctor.session.protocol.messages import Command, Event, Marker
from tests.facts_builder import healthy
from tests.helpers.hostile import (
    BACKENDS,
    BACKENDS_AND_TOKENS,
    FORGED,
    FURTHER,
    RUN,
    USUAL_BACKEND,
    Intruder,
    hostile_node_0,
    intruding,
)
from tests.helpers.runs import ended, family, node, roots, started
from tests.helpers.servers import unused_port

TWO: dict[str, tuple[int, ...]] = {"0": (0,), "1": (1,)}
LIMITS = ("--wait", "8", "--timeout", "12")
PATIENT = ("--wait", "40", "--timeout", "12")
"""Where all come: a busy machine takes its time to start them."""


def opening(stage: str, **changes: Any) -> Command:
    command = Command("stage", stage, seconds=3.0, world=2, ranks=TWO, group_ranks=TWO, node_ranks={"0": 0, "1": 1})
    return replace(command, **changes)


def joined(libuv: str, *commands: Command, marker: object = None, **variables: str) -> tuple[int, dict[str, Any], int]:
    """Node 1's status, its report, and how many processes it had at most."""
    most = 0
    with (
        hostile_node_0(libuv, *commands, marker=marker) as store,
        started(*node(1, store.port, *LIMITS), **variables) as one,
    ):
        deadline = time.monotonic() + 60
        while one.poll() is None and time.monotonic() < deadline:
            most = max(most, len(family(one.pid)))
            time.sleep(0.05)
        status, report = ended(one)
    return status, report, most


@USUAL_BACKEND
@pytest.mark.parametrize(
    "commands",
    [
        pytest.param((opening("store", world=10**18),), id="world", marks=FURTHER),
        pytest.param((opening("store", ranks={"0": (0,), "1": tuple(range(5000))}),), id="ranks"),
        pytest.param(tuple(opening("store") for _ in range(500)), id="again-and-again", marks=FURTHER),
        pytest.param((Command("report", parts=10**9, digest="0", met={}),), id="parts"),
        pytest.param((opening("store", seconds=1e17),), id="seconds", marks=FURTHER),
    ],
)
def test_numbers_beyond_all_bounds_end_the_run_at_once(libuv: str, commands: tuple[Command, ...]) -> None:
    status, report, most = joined(libuv, *commands)
    assert (status, report["verdict"], roots(report)) == (1, "fail", {FORGED})
    assert most < 20


@USUAL_BACKEND
def test_a_member_connects_to_nothing_on_its_loopback_that_no_member_announced(libuv: str) -> None:
    """Its own services, whatever node 0 says: here the ports of two listeners that must stay alone."""
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        ports = [listener.getsockname()[1] for listener in (first, second)]
        targets = tuple(LinkTarget(0, "host0 1 n", "127.0.0.1", port, ("gloo",)) for port in ports)
        status, report, _ = joined(libuv, opening("mesh", targets=targets))
        assert (status, roots(report)) == (1, {FORGED})
        for listener in (first, second):
            listener.settimeout(0.1)
            with pytest.raises(TimeoutError):
                listener.accept()


@USUAL_BACKEND
def test_a_trial_sets_no_variable_that_it_has_not_to_set(libuv: str, tmp_path: Path) -> None:
    """A preloaded library that does not exist makes the loader complain in each process that is started with it."""
    env = {"1": {"LD_PRELOAD": str(tmp_path / "x.so"), "PATH": str(tmp_path)}}
    status, report, _ = joined(libuv, opening("trial", attempt=1, env=env))
    assert (status, roots(report)) == (1, {FORGED})
    (finding,) = (f for f in report["findings"] if f["id"] == FORGED)
    assert any("LD_PRELOAD" in line for line in finding["evidence"])


@USUAL_BACKEND
@pytest.mark.parametrize(
    "marker",
    [
        pytest.param(Marker(RUN, "no hexadecimal digits at all", "1"), id="token", marks=FURTHER),
        pytest.param(Marker("../../etc/passwd", "ab" * 32, "1"), id="run"),
    ],
)
def test_a_mark_that_no_node_0_writes_is_named(libuv: str, marker: Marker) -> None:
    status, report, _ = joined(libuv, marker=marker)
    assert (status, report["verdict"], roots(report)) == (1, "fail", {FORGED})


@BACKENDS
def test_a_store_that_dies_right_after_its_mark_was_read_is_a_lost_node(libuv: str) -> None:
    began = time.monotonic()
    with hostile_node_0(libuv) as store, started(*node(1, store.port, *LIMITS)) as one:
        while store.get("distdoctor/" + RUN + "/m/1/0") == "-":
            assert time.monotonic() - began < 60
            time.sleep(0.005)
        store.close()
        status, report = ended(one)
    assert (status, roots(report)) == (1, {"store/node-lost"})


@BACKENDS
def test_a_node_0_whose_store_is_killed_ends_too(libuv: str) -> None:
    """The store's process alone, not node 0's, once node 0 has gone in itself."""
    port = unused_port()
    with started(*node(0, port, "--wait", "20", "--timeout", "12"), USE_LIBUV=libuv) as zero:
        assert zero.stderr is not None
        assert any("network: ok" in line for line in zero.stderr)  # it reads no further than that line
        (store,) = (pid for pid in family(zero.pid) if name_of(pid) == "distdoctor:sto")
        os.kill(store, 9)
        status, report = ended(zero)
    assert status in (1, 3) and report["verdict"] in ("fail", "incomplete")


def name_of(pid: int) -> str | None:
    """Return what the process is called, None where it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return None


async def crowd(intruder: Intruder) -> None:
    """Phantom members with impossible plans, and counters that nobody counted; whether or not node 1 is there yet."""
    facts = healthy(3)[2]
    plan = replace(facts.plan, nproc_per_node=10**9, world_size=10**18)
    huge = Event("hello", replace(facts, plan=plan), mesh_port=40000)
    for number in (2, 3):
        await intruder.write(f"m/{number}/0", huge)
    await intruder.write("members", b"100000")
    for name in ("tick", "bye", "beat/1"):
        await intruder.write(name, b"9" * 5000)
    for _ in range(50):
        await intruder.write("tick", b"9" * 5000)
        await asyncio.sleep(0.02)


@BACKENDS_AND_TOKENS
def test_phantom_members_hurt_nobody_and_are_named(libuv: str, token: str | None) -> None:
    port = unused_port()
    variables = {"USE_LIBUV": libuv, **({"DISTDOCTOR_TOKEN": token} if token else {})}
    most = 0
    with (
        started(*node(0, port, "--wait", "12", "--timeout", "12", nnodes=3), **variables) as zero,
        intruding(port, crowd),
        started(*node(1, port, "--wait", "12", "--timeout", "12", nnodes=3), **variables) as one,
    ):
        deadline = time.monotonic() + 60
        while zero.poll() is None and time.monotonic() < deadline:
            try:
                pages = int(Path(f"/proc/{zero.pid}/statm").read_text().split()[1])
                most = max(most, pages * os.sysconf("SC_PAGE_SIZE"))
            except (OSError, IndexError):
                break
            time.sleep(0.05)
        results = [ended(zero), ended(one)]
    for status, report in results:
        assert status in (1, 3) and report["verdict"] in ("fail", "incomplete"), report
    assert FORGED in roots(results[0][1])
    assert most < 300 << 20, f"{most >> 20} MiB"


def test_a_value_larger_than_any_message_is_not_read() -> None:
    """In torch's legacy store; the other one drops who sends it."""
    port = unused_port()

    async def fill(intruder: Intruder) -> None:
        await intruder.first_hello()
        key = intruder.key("m/2/0").encode()
        size = 64 << 20
        head = b"\1" + (len(key) + 1).to_bytes(8, "little") + b"/" + key + size.to_bytes(8, "little")
        await intruder.client._request(head + bytes(size), 0)
        await intruder.client.add(intruder.key("members"), 1)
        await intruder.client.add(intruder.key("tick"), 1)

    with (
        started(*node(0, port, *PATIENT), USE_LIBUV="0") as zero,
        intruding(port, fill),
        started(*node(1, port, *PATIENT), USE_LIBUV="0") as one,
    ):
        results = [ended(zero), ended(one)]
    assert FORGED in roots(results[0][1]), results[0][1]
    assert [status for status, _ in results] == [1, 1]
