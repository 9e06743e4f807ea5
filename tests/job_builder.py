"""Facts of a job that runs, of one node: its ranks and where each of them is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from distdoctor.model.facts import Frame, JobFacts, JobProcess, JobThread, NodeFacts, ProcessChanges, Socket
from tests.facts_builder import healthy

TRAIN = Frame("step", "train.py", 88, own=True)
WAITS = (Frame("all_reduce", "torch/distributed/distributed_c10d.py", 3252), TRAIN)
"""The frames of a rank in a collective."""
STILL = ProcessChanges(1.5, stack=False)


def rank(
    number: int,
    frames: Sequence[Frame] = WAITS,
    *,
    call: str = "futex",
    moved: ProcessChanges = STILL,
    threads: Sequence[str] = ("gloo_tcp_loop", "pt_gloo_runloop"),
    sockets: Sequence[Socket] = (),
    **given: Any,
) -> JobProcess:
    """A rank of a world of two; in a collective unless told."""
    main = JobThread(100 + number, "python", "S", "futex_do_wait", call, frames=tuple(frames))
    further = tuple(JobThread(200 + index, name, "S", "", "futex") for index, name in enumerate(threads))
    return JobProcess(
        pid=100 + number,
        parent=1,
        role="rank",
        state="S",
        age=100.0,
        rank=number,
        world_size=2,
        torch="2.13.0",
        threads=(main, *further),
        sockets=tuple(sockets),
        moved=moved,
        **given,
    )


def job_on(facts: NodeFacts, *processes: JobProcess, **given: Any) -> NodeFacts:
    """The node with a job of these processes."""
    job = JobFacts("host0:29500", "env", master_addr="host0", master_port=29500, world_size=2, processes=processes)
    return replace(facts, jobs=(replace(job, **given),), stages=(), until="")


def job(*processes: JobProcess, **given: Any) -> NodeFacts:
    """host0 with a job of these processes."""
    return job_on(healthy(2)[0], *processes, **given)
