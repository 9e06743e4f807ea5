"""``hang --store`` where no process of the job is: what its store tells, what is missing, and what cannot be known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.hang.report import report_on_jobs
from distdoctor.judge.catalog import load
from distdoctor.model.facts import (
    AgentView,
    Contact,
    Frame,
    GroupView,
    Identity,
    JobFacts,
    JobProcess,
    JobThread,
    Member,
    NodeFacts,
    ProcessChanges,
    RasView,
    RecordedCall,
    RecorderView,
    RendezvousView,
    Socket,
    StoreView,
    WorkerServer,
)
from distdoctor.model.plan import Plan
from distdoctor.model.report import Report

CHECKS = load()
OPEN = Contact("10.0.0.1", 29500, "open")


def member(rank: int, world: int = 4, address: str = "") -> Member:
    return Member(rank, f"node{rank // 2}", address or f"10.0.0.{1 + rank // 2}", 4000 + rank, world)


def store(*ranks: int, clients: int | None = None, members: tuple[Member, ...] = (), **more: object) -> StoreView:
    told = members or tuple(member(rank) for rank in ranks)
    groups = (GroupView("default_pg/0", "cpu", tuple(one.rank for one in told), told),) if told else ()
    came = len(told) if clients is None else clients
    view = StoreView("10.0.0.1", 29500, "read", OPEN, generation="2.10+", keys=9, clients=came, groups=groups)
    return replace(view, complete_list=True, **more)  # type: ignore[arg-type]


def report(*views: StoreView, **more: object) -> Report:
    job = JobFacts("10.0.0.1:29500", stores=views, **more)  # type: ignore[arg-type]
    facts = NodeFacts(Identity("desk", "boot", "netns", 1, "0.1.0", "3.11"), Plan(), jobs=(job,))
    return report_on_jobs([facts], CHECKS, (), started_at="2026-01-01T00:00:00+00:00", seconds=0.1)


def found(told: Report) -> dict[str, tuple[str | None, tuple[int, ...], tuple[str, ...]]]:
    return {one.id: (one.severity, one.ranks, one.nodes) for one in told.findings if one.because_of is None}


def test_an_old_store_tells_how_many_came_at_least() -> None:
    """As torch 2.1 has it: no list of keys, and names of hosts only once somebody asks for a rank that is known."""
    told = report(store(clients=3, generation="<=2.1"))
    assert (told.verdict, found(told)) == ("incomplete", {})
    assert any(note.startswith("3 clients joined the store; ") for note in told.notes)


AGENTS = (AgentView(0, 2, 0, 4), AgentView(1, 2, 2, 4))


def test_a_rank_that_is_missing_and_its_host() -> None:
    told = report(store(0, 2, 3, clients=5, agents=AGENTS, hosted_by="agent"))
    assert found(told) == {"collective/rank-missing": ("warn", (1,), ("node0",))}
    assert told.verdict == "incomplete"
    assert any("the store does not show what the ranks do" in note and "node0" in note for note in told.notes)


def test_rank_0_that_hosts_the_store_is_there() -> None:
    assert found(report(store(1, 3, clients=3)))["store/nodes-missing"][1] == (2,)


def test_all_came_and_that_clears_nothing() -> None:
    told = report(store(0, 1, 2, 3))
    assert found(told) == {} and told.verdict == "incomplete"


def test_after_a_restart_nothing_is_said_of_who_is_missing() -> None:
    told = report(store(0, 2, 3, clients=8, agents=AGENTS, hosted_by="agent"))
    assert found(told) == {}
    assert any("were restarted" in note for note in told.notes)


def test_one_client_alone_may_be_either() -> None:
    told = report(store(clients=1))
    assert found(told) == {} and told.verdict == "incomplete"
    assert any("rank 0 of a job without torchrun, or the agent" in note for note in told.notes)


def test_a_rendezvous_that_waits_for_nodes() -> None:
    state = RendezvousView("job7", 0, agents=(AgentView(host="node0", pid=7, heartbeat_age=2.0),))
    told = report(store(clients=None, rendezvous=(state,)))
    assert found(told)["store/nodes-missing"][0] == "warn"
    assert "1 node joined torchrun's rendezvous job7 (node0) and waits for more nodes" in told.findings[0].summary


def test_ranks_that_count_differently() -> None:
    told = report(store(members=(member(0), member(1), member(2, 2), member(3, 4))))
    assert found(told)["environment/world-size-mismatch"] == ("fail", (2,), ("node1",))


def test_a_loopback_address_that_was_told_to_others() -> None:
    members = (member(0), member(1), member(2, address="127.0.1.1"), member(3, address="127.0.1.1"))
    told = report(store(members=members))
    assert found(told) == {"gloo/loopback-address": ("warn", (2, 3), ("node1",))}


@pytest.mark.parametrize("age", [4.0, 400.0])
def test_who_never_called_what_others_wait_in(age: float) -> None:
    done = RecordedCall(1, "all_reduce", done=True, age=900.0)
    waits = RecordedCall(2, "all_reduce", age=age)
    servers = tuple(
        WorkerServer(rank, f"http://node{rank // 2}:1", True, (RecorderView("0", (done, waits)[: 1 + (rank != 3)]),))
        for rank in range(4)
    )
    told = report(store(0, 1, 2, 3), servers=servers)
    severity = "fail" if age > 10 else "warn"
    assert found(told) == {"collective/rank-missing": (severity, (3,), ("node1",))}
    assert "Rank 3 has not called all_reduce number 2 of group 0" in told.findings[0].summary


def test_what_ras_says_is_noted_and_clears_nothing() -> None:
    healthy = RasView("127.0.0.1", 28028, True, "2.27.3", whole=True)
    told = report(store(0, 1, 2, 3), ras=healthy)
    assert told.verdict == "incomplete"
    assert any("NCCL's RAS" in note and "proves nothing" in note for note in told.notes)
    told = report(store(0, 1, 2, 3), ras=replace(healthy, warnings=("#0-0 MISMATCH Rank 3 is behind",)))
    assert any("Rank 3 is behind" in note for note in told.notes)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("127.0.0.1", {}),
        ("10.0.0.1", {}),
        ("10.0.0.1", {"launcher": "torchrun", "nnodes": 1}),
        ("10.0.0.1", {"launcher": "torchrun", "master_addr": "localhost"}),
    ],
)
def test_a_job_of_one_host_may_meet_on_loopback(address: str, told: dict[str, object]) -> None:
    """Forked ranks: no variable says where they meet, but their store does. Of torchrun's one rank has ended."""
    c10d = "torch/distributed/distributed_c10d.py"
    making = (Frame("_new_process_group_helper", c10d), Frame("init_process_group", c10d))
    gloo = JobThread(8, "gloo_tcp_loop", "S")
    listens = Socket("LISTEN", "127.0.0.1", 4001)
    rank = JobProcess(7, 1, "rank", age=60.0, rank=1, threads=(JobThread(7, "python", "S", frames=making), gloo))
    view = store(1, clients=2, members=(member(1, address="127.0.0.1"),), hosted_by="rank 0")
    view = replace(view, host=address, contact=Contact(address, 29500, "open"))
    seen = report(
        view, **{"launcher": "fork"} | told, processes=(replace(rank, sockets=(listens,), moved=ProcessChanges(1.5)),)
    )
    assert ("gloo/loopback-address" in found(seen)) == (address != "127.0.0.1" and not told)
    missing = "collective/rank-missing" if told else "store/nodes-missing"  # of one host, or perhaps of others
    assert any(one.check == missing and one.ranks == (2, 3) for one in seen.findings)
