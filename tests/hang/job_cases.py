"""Ranks, stores and jobs made by hand, of which jobs that run or hang are put together; and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from distdoctor.hang.report import report_on_jobs
from distdoctor.model.facts import (
    BuildLock,
    Contact,
    Frame,
    JobProcess,
    JobThread,
    NodeFacts,
    ProcessChanges,
    Socket,
    StoreView,
)
from distdoctor.model.report import Report
from tests.facts_builder import CHECKS
from tests.hang.live_facts import C10D, RENDEZVOUS, WORKS, call, frames, node, process, store, syn_sent

ALL = store((0, 1, 2, 3))
REDUCE = call("all_reduce")
CODE, FIFO = frames(), {"call": "read", "reads": "/data/x"}
NO_ANSWER = StoreView("host0", 29500, "unreached", Contact("10.0.0.1", 29500, "no-answer"))
REFUSED = StoreView("host0", 29500, "unreached", Contact("10.0.0.1", 29500, "refused", 111))
FAR = StoreView("host0", 29500, "unreached", Contact("10.0.0.1", 29500, "unreachable", 113))
WAITING_HOST = process(0, RENDEZVOUS, threads=("pt_tcpstore_uv",), call="clock_nanosleep")
SILENT = syn_sent("10.0.0.1", 29500)
BEGUN = ("gloo_tcp_loop",)
LISTENS = {"sockets": (Socket("LISTEN", "10.0.0.1", 4001),)}
OTHER_WROTE = store((1, 2), clients=4, members_at={1: ("host1", 4009)})
ARRIVED = StoreView("host0", 29500, "read", Contact("10.0.0.1", 29500, "open"), clients=2, hosted_by="agent")
AGENT = JobProcess(90, 1, "agent", "pt_elastic", "S", age=60.0, node_rank=0)
STATIC: dict[str, Any] = {"launcher": "torchrun", "rdzv_backend": "static", "node_rank": 0, "world_size": None}
AT_STORE = Socket("ESTABLISHED", "10.0.0.1", 5001, "10.0.0.1", 29500)
WHOLE = ("gloo_tcp_loop", "pt_gloo_runloop")
BACKWARD = frames("torch/autograd/graph.py:_engine_run_backward", "torch/_tensor.py:backward")
FORWARD = frames("torch/nn/parallel/distributed.py:_sync_buffers", "torch/nn/parallel/distributed.py:forward")
RUNS = ("gloo_tcp_loop", "pt_gloo_runloop in a collective")
STARVED = process(3, CODE, call="", state="R", moved=ProcessChanges(1.5, cpu=0.01))
IN_ONE = [process(number, (), threads=RUNS) for number in (1, 2, 3)]
SAVER = JobThread(1234, "python", "S", call="futex", timed=False, frames=call("all_reduce", 30))
JOINS = process(0, (Frame("join", "/usr/lib/python3.11/threading.py", 1), *CODE), threads=RUNS)
WAITS_FOR_THREAD = replace(JOINS, threads=(*JOINS.threads, SAVER))
LOCK = BuildLock("/cache/x/lock", 900.0)
POLLS: dict[str, Any] = {"call": "clock_nanosleep", "moved": ProcessChanges(1.5, switches=15), "sockets": (AT_STORE,)}
READS = replace(WORKS, read=1 << 20)
LOADING = frames("torch/utils/data/dataloader.py:_get_data")
FURTHER = frames(f"{C10D}:_new_process_group_helper", f"{C10D}:new_group")
FILE_LOCK = frames("filelock/_api.py:acquire")


def with_thread(one: JobProcess, pid: int, stack: Sequence[Frame]) -> JobProcess:
    """The process with one more thread."""
    return replace(one, threads=(*one.threads, JobThread(pid, "python", "S", frames=tuple(stack))))


RPC = "torch/distributed/rpc/"
ENDS_CALLS = frames(
    f"{RPC}api.py:_all_gather", f"{RPC}api.py:shutdown", f"{RPC}api.py:_require_initialized.<locals>.wrapper"
)
CALLED = (Frame("look_up", "server.py", 5, own=True), Frame("_run_function", f"{RPC}internal.py", 200))
CALLS_BACK = with_thread(process(3, ENDS_CALLS), 1500, CALLED)
CALLED_ON = (Frame("rpc_sync", f"{RPC}api.py", 842), *CALLED)
CALLS_ON = with_thread(process(2, ENDS_CALLS), 1501, CALLED_ON)
MEETS_FOR_CALLS = frames(f"{RPC}backend_registry.py:_init_process_group", f"{RPC}__init__.py:init_rpc")
BATON = frames("torch/utils/file_baton.py:wait", "torch/utils/cpp_extension.py:load")


def judged(*facts: NodeFacts) -> Report:
    return report_on_jobs(facts, CHECKS, (), started_at="", seconds=0.0)


def roots(report: Report) -> list[tuple[str, tuple[int, ...], tuple[str, ...]]]:
    return [(f.check, f.ranks, f.nodes) for f in report.findings if f.because_of is None and f.severity == "fail"]


def warned(report: Report) -> list[tuple[str, tuple[int, ...]]]:
    """The checks that warn, with the ranks that they name."""
    return [(f.check, f.ranks) for f in report.findings if f.because_of is None and f.severity == "warn"]


def local(*ranks: Any, workers: Sequence[float] = (), children: Sequence[float] = (), **more: Any) -> NodeFacts:
    """A whole job of four on one host, rank by rank: its stack, or its process. ``workers`` of a data loader of rank 0,
    and other ``children`` of it: for how many seconds each was idle."""
    made = [one if not isinstance(one, tuple) else process(number, one) for number, one in enumerate(ranks)]
    idle = [(seconds, "loader") for seconds in workers] + [(seconds, "child") for seconds in children]
    for pid, (seconds, role) in enumerate(idle, 300):
        made.append(process(None, (), pid=pid, parent=100, role=role, idle=seconds, call="clock_nanosleep", threads=()))
    return node(*made, stores=(ALL,), **more)
