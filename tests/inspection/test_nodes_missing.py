"""Nodes, or ranks of other nodes, that have not joined: the same finding with torchrun's two rendezvous and without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from distdoctor.inspection.command_line import of_agent
from distdoctor.model.facts import AgentView, JobProcess, RendezvousView
from distdoctor.model.findings import Finding
from distdoctor.model.report import Report
from tests.inspection.job_cases import BEGUN, WAITING_HOST, judged
from tests.inspection.live_facts import MAKING, node, process, store

CHECK = "store/nodes-missing"
CAME = RendezvousView("job7", 0, agents=(AgentView(host="host0", pid=90),))
TOLD: dict[str, dict[str, Any]] = {
    "static": {"launcher": "torchrun", "rdzv_backend": "static", "join_timeout": 900.0, "node_rank": 0},
    "c10d": {"launcher": "torchrun", "rdzv_backend": "c10d", "join_timeout": 600.0, "run_id": "job7"},
}


def waits(backend: str, age: float = 60.0, nnodes: int = 2, came: RendezvousView = CAME, **more: Any) -> Report:
    """The report on node 0's agent, the only one that joined."""
    agent = JobProcess(90, 1, "agent", "pt_elastic", "S", age=age, node_rank=TOLD[backend].get("node_rank"))
    view = store((), clients=1, expected_world=None, hosted_by="agent")
    if backend == "c10d":
        view = replace(view, port=29400, clients=None, rendezvous=(came,))
    told = {"nnodes": nnodes, "nproc_per_node": "4", "world_size": None, **TOLD[backend], **more}
    return judged(node(agent, stores=(view,), **told))


def only(report: Report) -> Finding:
    (finding,) = report.findings
    assert finding.check == CHECK
    return finding


LINES = {
    "static": "--node-rank 1 --master-addr host0 --master-port 29500",
    "c10d": "--rdzv-backend c10d --rdzv-endpoint host0:29400 --rdzv-id job7",
}


@pytest.mark.parametrize("backend", TOLD)
def test_both_rendezvous_say_the_same_of_a_node_that_has_not_joined(backend: str) -> None:
    report = waits(backend)
    finding, who = only(report), {"static": "node 1", "c10d": "1 node"}[backend]
    place, left = {"static": ("host0:29500", 840), "c10d": ("host0:29400", 540)}[backend]
    assert (finding.severity, report.verdict, report.details["job"]["state"]) == ("fail", "fail", "hangs")
    assert finding.summary == (
        f"1 of 2 nodes joined {place} (host0); {who} has not joined after 60 s; torchrun gives up in {left} s."
    )
    assert f"`distdoctor check --nnodes 2 --nproc-per-node 4 {LINES[backend]}`" in finding.fixes[0].text


@pytest.mark.parametrize("backend", TOLD)
def test_a_wait_that_is_young_is_no_failure(backend: str) -> None:
    report = waits(backend, age=4.0)
    finding = only(report)
    assert (finding.severity, report.verdict, report.details["job"]["state"]) == ("warn", "warn", "waits")
    assert "has not joined after 4 s" in finding.summary


@pytest.mark.parametrize("backend", TOLD)
def test_of_more_nodes_the_number_is_said(backend: str) -> None:
    finding = only(waits(backend, nnodes=4))
    who = {"static": "nodes 1, 2 and 3", "c10d": "3 nodes"}[backend]
    assert "1 of 4 nodes joined" in finding.summary and f"; {who} have not joined" in finding.summary
    assert "on each node that has not joined" in finding.fixes[0].text


@pytest.mark.parametrize("backend", TOLD)
def test_all_that_are_to_join_joined(backend: str) -> None:
    """With the static rendezvous the ranks start then; c10d waits 30 s for others to join."""
    severities = [finding.severity for finding in waits(backend, nnodes=1).findings]
    assert severities == {"static": [], "c10d": ["warn"]}[backend]


@pytest.mark.parametrize(
    ("command", "seconds", "nodes"),
    [
        ("torchrun --nnodes 2 --master-addr a t.py", 900.0, 2),
        ("torchrun --nnodes 2 --master-addr a --rdzv-conf timeout=60 t.py", 60.0, 2),
        ("torchrun --nnodes 2 --master-addr a --rdzv-conf join_timeout=60 t.py", 900.0, 2),
        ("torchrun --nnodes 1:4 --master-addr a t.py", 900.0, 4),
        ("torchrun --nnodes 1:4 --rdzv-backend c10d --rdzv-endpoint a t.py", 600.0, 1),
        ("torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint a --rdzv-conf timeout=60 t.py", 600.0, 2),
        ("torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint a --rdzv-conf x=1,join_timeout=60 t.py", 60.0, 2),
        ("torchrun --nnodes 2 --rdzv-backend etcd-v2 --rdzv-endpoint a t.py", None, 2),
        ("python start.py", None, None),
    ],
)
def test_how_long_torchrun_waits_and_for_how_many(command: str, seconds: float | None, nodes: int | None) -> None:
    options = of_agent(command.split(), {})
    assert (options.join_timeout, options.awaited_nodes) == (seconds, nodes)


def gloo(rank: int, **more: Any) -> JobProcess:
    return process(rank, MAKING, threads=BEGUN, call="poll", **more)


def test_ranks_of_another_node_without_torchrun() -> None:
    report = judged(node(WAITING_HOST, gloo(1), stores=(store((1,), clients=2),)))
    finding = only(report)
    assert (finding.severity, finding.ranks, report.verdict) == ("fail", (2, 3), "fail")
    assert finding.summary == (
        "2 of 4 ranks joined host0:29500 (host0 has ranks 0 and 1); ranks 2 and 3 have not joined after 100 s."
    )
    line = "--nnodes 2 --nproc-per-node 2 --node-rank 1 --master-addr host0 --master-port 29500"
    assert f"`distdoctor check {line}`" in finding.fixes[0].text


@pytest.mark.parametrize(
    ("ranks", "clients", "joined", "check", "absent"),
    [
        ((0, 1), 3, (1, 2), "collective/rank-missing", (3,)),  # rank 2 of the other node is there
        ((0,), 3, (2, 3), "collective/rank-missing", (1,)),  # the other node has two ranks, and so has this one
        ((0, 1), 2, (), CHECK, (2, 3)),  # as with NCCL alone, where no rank writes anything
        ((0, 1), 3, (), CHECK, ()),  # one came from elsewhere, and the store does not tell which
    ],
)
def test_whose_ranks_are_missing(
    ranks: tuple[int, ...], clients: int, joined: tuple[int, ...], check: str, absent: tuple[int, ...]
) -> None:
    others = [gloo(rank) for rank in ranks if rank]
    report = judged(node(WAITING_HOST, *others, stores=(store(joined, clients=clients),)))
    assert [(one.check, one.severity, one.ranks) for one in report.findings] == [(check, "fail", absent)]
