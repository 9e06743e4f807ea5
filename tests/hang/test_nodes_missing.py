"""Nodes, or ranks of other nodes, that have not joined: the same finding with torchrun's two rendezvous and without."""

from __future__ import annotations

import platform
import sys
import time
from dataclasses import replace
from subprocess import PIPE, Popen
from typing import Any

import pytest

from distdoctor.hang import snapshot
from distdoctor.hang.agent_options import of_agent
from distdoctor.hang.proc import SocketTables
from distdoctor.model.facts import AgentView, JobProcess, JobThread, RendezvousView
from distdoctor.model.findings import Finding
from distdoctor.model.report import Report
from distdoctor.model.text import duration_to_second
from distdoctor.render.style import Style
from distdoctor.render.text import render
from tests.hang.job_cases import BEGUN, WAITING_HOST, judged
from tests.hang.live_facts import MAKING, node, process, store

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
    place, left = {"static": ("host0:29500", "14 min"), "c10d": ("host0:29400", "9 min")}[backend]
    assert (finding.severity, report.verdict, report.details["job"]["state"]) == ("warn", "warn", "waits")
    assert finding.summary == (
        f"1 of 2 nodes joined {place} (host0); {who} has not joined for 1 min; torchrun gives up in {left}."
    )
    assert f"`distdoctor check --nnodes 2 --nproc-per-node 4 {LINES[backend]}`" in finding.fixes[0].text


@pytest.mark.parametrize("backend", TOLD)
def test_a_wait_that_is_young_is_no_failure(backend: str) -> None:
    report = waits(backend, age=4.0)
    finding = only(report)
    assert (finding.severity, report.verdict, report.details["job"]["state"]) == ("warn", "warn", "waits")
    assert "has not joined for 4 s" in finding.summary


@pytest.mark.parametrize(("backend", "limit"), [("static", 900.0), ("c10d", 600.0)])
def test_a_node_fails_to_join_once_the_limit_of_torchrun_is_over(backend: str, limit: float) -> None:
    assert only(waits(backend, age=limit - 5)).severity == "warn"
    report = waits(backend, age=limit + 5)
    finding = only(report)
    assert (finding.severity, report.verdict, report.details["job"]["state"]) == ("fail", "fail", "hangs")
    assert f"for {duration_to_second(limit + 5)}; the limit of {duration_to_second(limit)} is over." in finding.summary


def test_a_limit_of_the_job_s_own_and_one_that_is_unknown() -> None:
    assert only(waits("c10d", age=700.0, join_timeout=3600.0)).severity == "warn"
    assert only(waits("c10d", age=70.0, join_timeout=60.0)).severity == "fail"
    assert [only(waits("static", age=age, join_timeout=None)).severity for age in (890.0, 910.0)] == ["warn", "fail"]


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
    assert (finding.severity, finding.ranks, report.verdict) == ("warn", (2, 3), "warn")
    assert finding.summary == (
        "2 of 4 ranks joined host0:29500 (host0 has ranks 0 and 1); ranks 2 and 3 have not joined for 1 min 40 s; "
        "by default init_process_group() gives up after 30 min, with NCCL after 10 min."
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
    assert [(one.check, one.severity, one.ranks) for one in report.findings] == [(check, "warn", absent)]


def at_store(limit: float | None, age: float) -> JobProcess:
    """Rank 1, which has waited for ``age`` seconds in a poll that gives up after ``limit``."""
    one = gloo(1, age=4000.0)
    main, *others = one.threads
    return replace(one, threads=(replace(main, limit=limit), *(replace(thread, age=age) for thread in others)))


@pytest.mark.parametrize(
    ("limit", "age", "severity", "said"),
    [
        (600.0, 45.0, "warn", "for 45 s; init_process_group() gives up in 9 min 15 s."),
        (600.0, 605.0, "fail", "for 10 min 5 s; the limit of 10 min is over."),
        (7200.0, 1900.0, "warn", "for 31 min 40 s; init_process_group() gives up in 1 h 28 min."),
        (
            None,
            45.0,
            "warn",
            "for 45 s; by default init_process_group() gives up after 30 min, with NCCL after 10 min.",
        ),
        (None, 1801.0, "fail", "for 30 min 1 s; the default limit of 30 min is over."),
    ],
)
@pytest.mark.parametrize(("joined", "check"), [((1,), CHECK), ((1, 2), "collective/rank-missing")])
def test_ranks_fail_to_join_once_the_timeout_of_the_store_is_over(
    joined: tuple[int, ...], check: str, limit: float | None, age: float, severity: str, said: str
) -> None:
    """Both were started long before they came to init_process_group()."""
    ranks = (replace(WAITING_HOST, age=4000.0, threads=threads(age)), at_store(limit, age))
    report = judged(node(*ranks, stores=(store(joined, clients=1 + len(joined)),)))
    (finding,) = report.findings
    assert finding.title == "Some ranks have not joined the job"
    head = {"warn": "WAITING  ", "fail": "HANG  "}[severity]
    assert render(report, Style()).startswith(head + finding.summary[:-1])
    state = {"warn": ("warn", "waits"), "fail": ("fail", "hangs")}[severity]
    assert (finding.check, finding.severity, finding.summary.endswith(said)) == (check, severity, True), finding.summary
    assert (report.verdict, report.details["job"]["state"]) == state


@pytest.mark.parametrize(
    ("ended", "joined", "severity"), [((), (1, 2), "warn"), ((77,), (1, 2), "fail"), ((77,), (0, 1, 2), "fail")]
)
def test_a_rank_that_ended_and_is_not_reaped_never_joins(
    ended: tuple[int, ...], joined: tuple[int, ...], severity: str
) -> None:
    ranks = [replace(one, parent=50) for one in (WAITING_HOST, gloo(1))]
    report = judged(node(*ranks, stores=(store(joined, clients=4),), launcher="fork", ended=ended))
    (finding,) = report.findings
    assert (finding.check, finding.ranks, finding.severity) == ("collective/rank-missing", (3,), severity)
    assert any("pid 77 has ended" in line for line in finding.evidence) == bool(ended)


def threads(age: float) -> tuple[JobThread, ...]:
    main, serves = WAITING_HOST.threads
    return main, replace(serves, age=age)


POLLS = """
import select, socket, sys
reads, writes = socket.socketpair()
waits = select.poll()
waits.register(reads, select.POLLIN)
print(flush=True)
waits.poll(*map(float, sys.argv[1:]))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="poll(2) is ppoll(2) elsewhere, whose limit is in memory")
@pytest.mark.parametrize(("given", "limit"), [(["90500"], 90.5), ([], None), (["-1"], None)])
def test_when_a_poll_gives_up_is_seen(given: list[str], limit: float | None) -> None:
    with Popen([sys.executable, "-c", POLLS, *given], stdout=PIPE) as started:
        try:
            assert started.stdout is not None and started.stdout.readline()
            deadline = time.monotonic() + 20
            while (main := snapshot.thread_facts(started.pid, SocketTables())[0]).call != "poll":
                assert time.monotonic() < deadline, main
            assert main.limit == limit
        finally:
            started.kill()
