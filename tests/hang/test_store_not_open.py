"""A store that refuses connections: it may open until its clients give up, unless facts show that it will not."""

from __future__ import annotations

from typing import Any

import pytest

from distdoctor.hang.agent_options import of_agent
from distdoctor.model.facts import Contact, JobProcess, NodeFacts, StoreView
from distdoctor.model.launch_variables import AGENT_STORE
from tests.hang.job_cases import CODE, FIFO, REFUSED, STATIC, WAITING_HOST, judged
from tests.hang.live_facts import RENDEZVOUS, node, process, store

OF_AGENT: dict[str, Any] = {"variables": {AGENT_STORE: "True"}}
LOOPBACK = StoreView("localhost", 29500, "unreached", Contact("127.0.0.1", 29500, "refused", 111))


def dials(age: float, view: StoreView = REFUSED, **more: Any) -> NodeFacts:
    rank = process(2, RENDEZVOUS, threads=(), call="clock_nanosleep", age=age, **more)
    return node(rank, stores=(view,), name="host1")


def agent(age: float, backend: str, seconds: float | None, number: int = 1) -> NodeFacts:
    one = JobProcess(90, 1, "agent", "pt_elastic", "S", age=age, node_rank=number)
    told = STATIC | {"rdzv_backend": backend, "node_rank": number, "connect_timeout": seconds}
    return node(one, stores=(REFUSED,), name="host1", **told)


DEFAULTS = "by default init_process_group() gives up after 1 h, with NCCL after 20 min"
ROWS: dict[str, tuple[list[NodeFacts], str, str]] = {
    "a rank, for a minute": ([dials(60)], "warn", f"refuses connections for 1 min; {DEFAULTS}."),
    "a rank, a moment ago": ([dials(4)], "warn", "for 4 s"),
    "a rank, for longer than any default": ([dials(3700)], "fail", "the default limit of 1 h is over"),
    "an agent": ([agent(60, "static", 900.0)], "warn", "for 1 min; torchrun gives up in 29 min."),
    "an agent, to the end": ([agent(1805, "static", 900.0)], "fail", "the limit of 30 min is over"),
    "an agent of c10d": ([agent(60, "c10d", 60.0)], "warn", "torchrun gives up in 1 min."),
    "an agent of c10d, to the end": ([agent(125, "c10d", 60.0)], "fail", "the limit of 2 min is over"),
    "an agent of unknown limit": ([agent(1790, "static", None)], "warn", "torchrun gives up in 10 s."),
    "rank 0 serves another port": (
        [node(WAITING_HOST, stores=(store((), clients=1),)), dials(60)],
        "fail",
        "it refuses connections.",
    ),
    "node 0's agent runs": ([agent(60, "static", 900.0, 0), agent(60, "static", 900.0)], "fail", ""),
    "torchrun hosted it before it started ranks": ([dials(60, **OF_AGENT)], "fail", "it refuses connections."),
    "ranks of node 1 look at home": ([dials(60, LOOPBACK, local_rank=0)], "fail", ""),
    "rank 2 of one node": ([dials(60, LOOPBACK, local_rank=2)], "warn", ""),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_store_that_refuses_connections(name: str) -> None:
    facts, severity, text = ROWS[name]
    found = judged(*facts).findings
    (finding,) = (one for one in found if one.check == "network/port-refused")
    assert (finding.severity, text in finding.summary) == (severity, True), finding.summary


def test_rank_0_that_is_not_there_yet_is_no_refusal() -> None:
    found = judged(node(process(0, CODE, threads=(), **FIFO), process(1, RENDEZVOUS, threads=()), stores=(REFUSED,)))
    assert all(one.check != "network/port-refused" for one in found.findings)


@pytest.mark.parametrize(
    ("flags", "seconds"),
    [
        ("--master-addr a", 900.0),
        ("--master-addr a --rdzv-conf timeout=60", 60.0),
        ("--rdzv-backend c10d --rdzv-endpoint a", 60.0),
        ("--rdzv-backend c10d --rdzv-endpoint a --rdzv-conf read_timeout=300,join_timeout=9", 300.0),
        ("--rdzv-backend etcd-v2 --rdzv-endpoint a", None),
    ],
)
def test_how_long_torchrun_tries_to_connect(flags: str, seconds: float | None) -> None:
    assert of_agent(f"torchrun --nnodes 2 {flags} t.py".split(), {}).connect_timeout == seconds
