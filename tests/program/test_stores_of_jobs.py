"""A look into the stores of real jobs: what is seen of them, and that none of them notices."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from distdoctor.hang.debug_server import ask_debug_servers
from distdoctor.hang.store.view import read_view, read_views
from distdoctor.knowledge.live.flight_recorder import absent
from distdoctor.model.facts import StoreView
from tests.helpers.jobs import Job, Jobs
from tests.helpers.namespaces import ENV, entry
from tests.helpers.servers import unused_port

pytestmark = pytest.mark.timeout(400)
BACKENDS = pytest.mark.parametrize("libuv", ["1", "0"], ids=["libuv", "legacy"])


@pytest.fixture(scope="module")
def real() -> Iterator[Jobs]:
    """Fixture that starts real jobs."""
    started = Jobs()
    yield started
    started.close()


def until(look: Callable[[], StoreView], told: Callable[[StoreView], bool], seconds: float = 120) -> StoreView:
    """The first look that tells what is waited for, and nothing else is told 20 looks later."""
    end = time.monotonic() + seconds
    while not told(seen := look()):
        assert time.monotonic() < end, seen
        time.sleep(0.2)
    time.sleep(0.3)
    seen = look()
    for _ in range(20):
        again = look()
        assert (again.keys, again.clients) == (seen.keys, seen.clients)
    return seen


@BACKENDS
def test_ranks_without_a_launcher_of_which_two_are_missing(real: Jobs, tmp_path: Path, libuv: str) -> None:
    port, job = unused_port(), Job(real, tmp_path, late=(2,))
    for rank in (0, 1, 2):
        job.rank(port, rank, 4, USE_LIBUV=libuv)
    seen = until(lambda: read_view("127.0.0.1", port, timeout=15), lambda seen: len(seen.joined) == 2)
    assert (seen.state, seen.generation, seen.clients, seen.world) == ("read", "2.10+", 2, 4)
    assert seen.rank_0_waits and seen.joined == (0, 1) and seen.missing == (2, 3) and seen.arrived == 2
    group = seen.default_group
    assert group is not None and group.path == "default_pg/0" and group.joined == (1,)
    assert group.members[0].address.startswith("127.") and group.members[0].port and group.members[0].host
    job.rank(port, 3, 4, USE_LIBUV=libuv)
    job.open()
    seen = until(lambda: read_view("127.0.0.1", port, timeout=15), lambda seen: len(seen.groups) == 2)
    assert seen.joined == (0, 1, 2, 3) and not seen.missing
    assert {(one.path, one.joined) for one in seen.groups if not one.default} == {("default_pg/0//1", (0, 1, 2, 3))}
    assert job.results(4) == [["rank", rank, 6.0] for rank in range(4)]


def test_agents_that_share_the_store_with_their_ranks(real: Jobs, tmp_path: Path) -> None:
    port, job = unused_port(), Job(real, tmp_path, late=(1,))
    job.agent("static", port, 0)
    alone = until(lambda: read_view("127.0.0.1", port, timeout=15), lambda seen: seen.clients == 1)
    # It might as well be rank 0 of a job without torchrun.
    assert alone.keys == 1 and not alone.joined and not alone.tells_missing
    job.agent("static", port, 1)
    seen = until(lambda: read_view("127.0.0.1", port, timeout=15), lambda seen: len(seen.joined) == 3)
    assert seen.hosted_by == "agent" and not seen.rank_0_waits
    assert [(one.node, one.ranks, one.first_rank, one.world) for one in seen.agents] == [(0, 2, 0, 4), (1, 2, 2, 4)]
    assert (seen.clients, seen.arrived, seen.joined, seen.missing) == (5, 3, (0, 2, 3), (1,))
    assert seen.node_of(1) == 0 and seen.host_of(1) == seen.host_of(0) != ""
    assert job.results(2) == [["agent", [[0, 6.0], [1, 6.0]]], ["agent", [[2, 6.0], [3, 6.0]]]]


def test_agents_that_meet_by_c10d(real: Jobs, tmp_path: Path) -> None:
    port, job = unused_port(), Job(real, tmp_path, late=(3,))

    def look() -> StoreView:
        return read_views("127.0.0.1", port, timeout=15, run_id="job7")[-1]

    job.agent("c10d", port, 0, USE_LIBUV="0")
    alone = until(look, lambda seen: bool(seen.rendezvous and seen.rendezvous[0].agents))
    (state,) = alone.rendezvous
    assert (state.run_id, state.round, state.complete, state.problem) == ("job7", 0, False, "")
    assert [(one.host, one.node) for one in state.agents] == [("127.0.0.1", None)]
    job.agent("c10d", port, 1, USE_LIBUV="0")
    seen = until(look, lambda seen: len(seen.joined) == 3)
    endpoint, ranks = read_views("127.0.0.1", port, timeout=15, run_id="job7")
    (state,) = endpoint.rendezvous
    assert state.complete and [(one.node, one.host) for one in state.agents] == [(0, "127.0.0.1"), (1, "127.0.0.2")]
    assert state.master == f"{ranks.host}:{ranks.port}" and ranks.via == f"127.0.0.1:{port}"
    assert (seen.clients, seen.arrived, seen.joined, seen.missing) == (3, 3, (0, 1, 2), (3,))
    assert seen.node_of(3) == 1 and seen.host_of(3) == "127.0.0.2"
    assert job.results(2) == [["agent", [[0, 6.0], [1, 6.0]]], ["agent", [[2, 6.0], [3, 6.0]]]]


def test_a_rank_that_is_absent_from_a_collective(real: Jobs, tmp_path: Path) -> None:
    port, job, end = unused_port(), Job(real, tmp_path), time.monotonic() + 120
    for rank in range(2):
        job.rank(port, rank, 2, ABSENT="1")
    waiting = False
    while not waiting:
        assert time.monotonic() < end
        time.sleep(0.2)
        found = ask_debug_servers(read_view("127.0.0.1", port, timeout=15), timeout=3)
        groups = {one.rank: one.recorders[0].calls for one in found if one.answers and one.recorders}
        waiting = len(groups) == 2 and len(groups[0]) > len(groups[1])
    (missed,) = groups[0][len(groups[1]) :]
    assert (missed.operation, missed.done) == ("all_reduce", False)
    assert all(call.done for call in groups[1])
    for _ in range(20):
        again = ask_debug_servers(read_view("127.0.0.1", port, timeout=15), timeout=3)
        assert [[call.number for call in one.recorders[0].calls] for one in again] == [[1, 2], [1]]
    assert [one.absent for one in absent(found)] == [(1,)]
    assert job.results(2) == [["rank", rank, 2.0] for rank in range(2)]


def test_a_store_is_looked_into_from_where_no_process_of_the_job_is(real: Jobs, tmp_path: Path) -> None:
    port, job = unused_port(), Job(real, tmp_path, late=(2,))
    for rank in (0, 1, 2):
        job.rank(port, rank, 4)
    until(lambda: read_view("127.0.0.1", port, timeout=15), lambda seen: len(seen.joined) == 2)
    elsewhere = entry("--pid", "--fork", "--mount-proc")
    for _ in range(2):
        command = [*elsewhere, sys.executable, "-m", "distdoctor", "hang", "--store", f"127.0.0.1:{port}", "-o", "json"]
        done = subprocess.run(command, capture_output=True, text=True, env=ENV, timeout=60, check=False)
        assert done.returncode == 3, done.stderr
        told = json.loads(done.stdout)
        (finding,) = told["findings"]
        assert (finding["id"], finding["severity"], finding["ranks"]) == ("store/nodes-missing", "warn", [2, 3])
        assert any("the store does not show what the ranks do" in note for note in told["notes"])
    job.rank(port, 3, 4)
    assert job.results(4) == [["rank", rank, 6.0] for rank in range(4)]
