"""Tests of what each process is in its job, by its variables, its threads and what started it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace

import pytest

from distdoctor.hang import inspect, jobs
from distdoctor.hang.jobs import JobCandidate, Scan
from distdoctor.model.bounds import check_facts
from distdoctor.model.facts import (
    GroupView,
    Identity,
    JobFacts,
    JobProcess,
    Member,
    NodeFacts,
    RankFacts,
    Socket,
    StoreView,
)

THREADS = ("python", "gloo_tcp_loop", "pt_gloo_runloop")
FIRST = 4_000_000_001
"""No process has such a number: nothing of theirs is in /proc."""


def candidate(pid: int, parent: int, variables: dict[str, str], torch: str | None, distributed: bool) -> JobCandidate:
    one = JobCandidate(
        FIRST + pid, FIRST + parent, 1.0, "S", "python", ("python", "train.py"), variables, True, torch, "net"
    )
    one.__dict__["thread_names"] = THREADS if distributed else ("python",)
    return one


def scan(*found: JobCandidate) -> Scan:
    return Scan({one.pid: one for one in found}, {one.pid: one.parent for one in found})


def variables_of_rank(rank: int) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "host0", "MASTER_PORT": "29500"}


def test_a_script_that_starts_a_rank_is_none_itself() -> None:
    seen = scan(
        candidate(1, 0, variables_of_rank(1), None, False), candidate(2, 1, variables_of_rank(1), "2.13.0", True)
    )
    (job,) = jobs.find(seen)
    assert {pid - FIRST: role for pid, (_, role) in job.members.items()} == {1: "launcher", 2: "rank"}
    assert jobs.inherited(job, seen) == set()


def test_ranks_that_were_spawned_in_one_task_do_not_have_its_number() -> None:
    task = {"SLURM_PROCID": "0", "SLURM_STEP_ID": "0"}
    spawned = [candidate(number, 1, task, "2.13.0", True) for number in (2, 3)]
    seen = scan(candidate(1, 0, task, "2.13.0", False), *spawned)
    (job,) = jobs.find(seen)
    assert sorted(one.pid - FIRST for one in job.ranks) == [2, 3]
    assert jobs.inherited(job, seen) == {one.pid for one in spawned}


@pytest.mark.parametrize(
    ("told", "distributed", "role"),
    [
        ({"LOCAL_RANK": "1", "WORLD_SIZE": "2"}, True, "rank"),
        ({"LOCAL_RANK": "1", "WORLD_SIZE": "2"}, False, "child"),
        ({}, True, "child"),
    ],
    ids=["in the group", "not in it yet, or a worker of its data loader", "with what it was told"],
)
def test_rank_0_may_start_the_others_itself(told: dict[str, str], distributed: bool, role: str) -> None:
    """As a script that Lightning starts again for each further rank of its host."""
    (job,) = jobs.find(scan(candidate(1, 0, {}, "2.13.0", True), candidate(2, 1, told, "2.13.0", distributed)))
    assert {pid - FIRST: role for pid, (_, role) in job.members.items()} == {1: "rank", 2: role}


@pytest.mark.parametrize("named", [None, 1, 2, 3])
def test_whichever_process_is_named_all_that_were_spawned_are_ranks(named: int | None) -> None:
    """The one that has not come so far is no child of a rank where --pid names what started them."""
    spawned = [candidate(2, 1, {}, "2.13.0", True), candidate(3, 1, {}, "2.13.0", False)]
    seen = scan(candidate(1, 0, {}, "2.13.0", False), *spawned)
    (job,) = jobs.find(seen, None if named is None else FIRST + named)
    assert {pid - FIRST: role for pid, (_, role) in job.members.items()} == {1: "launcher", 2: "rank", 3: "rank"}


def test_ranks_of_their_own_keep_their_numbers() -> None:
    seen = scan(
        candidate(1, 0, variables_of_rank(0), "2.13.0", True), candidate(2, 0, variables_of_rank(0), "2.13.0", True)
    )
    (job,) = jobs.find(seen)
    assert len(job.ranks) == 2 and jobs.inherited(job, seen) == set()


@pytest.mark.parametrize(
    ("command", "torch", "ranks"),
    [
        (("python", "-c", "serve()"), None, [1]),
        (("python", "-m", "metrics.service"), "2.13.0", [1]),
        (("python", "-u", "train.py", "--lr", "1"), None, [1, 5]),
    ],
)
def test_what_a_rank_left_in_the_background_is_none_itself(
    command: tuple[str, ...], torch: str | None, ranks: list[int]
) -> None:
    """It has the rank's variables, and is below it no more; who runs the same script is the rank a second time."""
    other = replace(candidate(5, 0, variables_of_rank(1), torch, False), command=command, started=9.0)
    other.__dict__["thread_names"] = ("python",)
    (job,) = jobs.find(scan(candidate(1, 0, variables_of_rank(1), "2.13.0", True), other))
    assert [one.pid - FIRST for one in job.ranks] == ranks


def test_jobs_of_containers_are_told_beside_those_of_this_network() -> None:
    """One of this network is meant, unless another one is named; where it must be chosen, all are there to choose."""
    seen = scan(candidate(1, 0, variables_of_rank(0), "2.13.0", True))
    (there,) = jobs.find(seen)
    netns = os.readlink("/proc/self/ns/net")
    pid = min(there.members)
    here = [jobs.LocalJob(name, netns, there.members) for name in ("one", "two", f"pid {pid}")]
    chosen = inspect._chosen([here[0], there], inspect.Wanted(), seen)
    assert chosen.id == "one" and "host0:29500, in a container" in chosen.passed_over and "--pid" in chosen.passed_over
    with pytest.raises(
        inspect.NoJob,
        match=rf"4 jobs run here; say which: one: --pid .*two: .*; --pid {pid} .1 rank, for .*host0:29500, in",
    ):
        inspect._chosen([*here, there], inspect.Wanted(), seen)
    assert inspect._chosen([there], inspect.Wanted(), seen).passed_over == ""


RANK_0 = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
opened = server.accept()
sys.stdin.read()
"""
OTHER = """
import socket, sys, time
store = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
time.sleep(0.2)
print(1, flush=True)
sys.stdin.read()
"""


def test_ranks_that_were_started_one_by_one_without_variables_are_one_job() -> None:
    """``train.py --rank 1 --init tcp://...``: what they have in common is where they are connected to."""
    with ExitStack() as stack:

        def started(*words: str) -> tuple[jobs.LocalJob, str]:
            command = [sys.executable, "-S", "-c", *words]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None
            one = JobCandidate(process.pid, 1, 1.0, "S", "python", (), {}, True, "2.13.0", "net")
            return jobs.LocalJob(f"pid {process.pid}", "net", {process.pid: (one, "rank")}), process.stdout.readline()

        first, port = started(RANK_0)
        second, _ = started(OTHER, port)
        third, other_port = started(RANK_0)
        fourth, _ = started(OTHER, other_port)
        pids = [{*one.members, *other.members} for one, other in ((first, second), (third, fourth))]
        found = [set(job.members) for job in jobs.joined([first, third, second, fourth])]
    assert found == pids


TWO_PORTS = """
import fcntl, socket, sys
later = socket.create_connection(("127.0.0.1", int(sys.argv[2])))  # the lower inode, with the higher descriptor
moved = fcntl.fcntl(later.fileno(), fcntl.F_DUPFD, 300)
later.close()
store = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print(flush=True)
sys.stdin.read()
"""


def test_of_two_ports_to_which_a_rank_is_connected_the_store_s_is_the_one_that_it_opened_first() -> None:
    """The inodes of sockets do not tell their order: each processor has numbers of its own (get_next_ino)."""
    with ExitStack() as stack:
        store, gloo = (stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2))
        places = [one.getsockname() for one in (store, gloo)]
        command = [sys.executable, "-S", "-c", TWO_PORTS, *(str(port) for _, port in places)]
        process = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        stack.callback(process.kill)
        assert process.stdout is not None
        process.stdout.readline()
        one = JobCandidate(process.pid, 1, 1.0, "S", "python", (), {}, True, "2.13.0", "net")
        found = jobs.LocalJob("job", "net", {process.pid: (one, "rank")}).store_of_sockets()
    assert found == places[0]


def test_who_listens_where_a_rank_wrote_that_it_does() -> None:
    members = tuple(Member(rank, "here", "127.0.0.1", 5000 + rank) for rank in range(3))
    view = StoreView("here", 1, "read", groups=(GroupView("default_pg/0", joined=(0, 1, 2), members=members),))
    ours = [JobProcess(1, 1, "rank", sockets=(Socket("LISTEN", "127.0.0.1", 5000),))]
    assert inspect._strangers([view], ours, {("127.0.0.1", 5000), ("127.0.0.1", 5002)}) == (2,)


@pytest.mark.parametrize(("told", "claimed"), [(2, (0, 1, 0, 1)), (1, (0, 1, 2, 3)), (4, (2, 3))])
def test_facts_of_more_ranks_than_were_planned_can_be_read_again(told: int, claimed: tuple[int, ...]) -> None:
    """Two jobs that took one port, or LOCAL_WORLD_SIZE=1 in each rank: ``--save`` and ``diagnose`` take them."""
    ranks = (JobProcess(7 + n, 1, "rank", rank=rank, local_world_size=told) for n, rank in enumerate(claimed))
    job = JobFacts("host0:29500", "env", world_size=4, processes=tuple(ranks))
    seen = tuple(RankFacts(one.rank or 0, 0, one.pid) for one in job.ranks)
    facts = NodeFacts(Identity("host0", "boot", "net", 1, "0.1.0", "3.11"), inspect._plan(job), ranks=seen, jobs=(job,))
    check_facts(facts)
    assert facts.plan.nproc_per_node == max(told, len(claimed))


@pytest.mark.parametrize(
    ("words", "several"),
    [
        (("--standalone", "--nproc-per-node", "2"), True),
        (("--nproc-per-node", "2"), True),
        (("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"), True),
        (("--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", "29511"), False),
    ],
    ids=["standalone", "one node, since torch 2.13", "any port", "two nodes of one job on one machine"],
)
def test_agents_whose_port_the_kernel_picks_have_a_job_each(words: tuple[str, ...], several: bool) -> None:
    """Two jobs on the GPUs of one machine were told as one whose ranks are there twice."""
    found = []
    for agent in (1, 11):
        command = ("python", "-m", "torch.distributed.run", *words, "train.py")
        found.append(replace(candidate(agent, 0, {}, "2.13.0", False), command=command, name="pt_elastic"))
        port = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(40000 + agent)}
        found += [candidate(agent + 1 + rank, agent, variables_of_rank(rank) | port, "2.13.0", True) for rank in (0, 1)]
    there = jobs.find(scan(*found))
    assert [len(job.ranks) for job in there] == ([2, 2] if several else [4])
