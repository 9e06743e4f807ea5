"""Facts of jobs that run, made by hand: a rank is where its stack and its sockets say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from distdoctor.model.facts import (
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
    Socket,
    StoreView,
)
from distdoctor.model.plan import Plan

C10D = "torch/distributed/distributed_c10d.py"
STILL, WORKS = ProcessChanges(1.5, stack=False), ProcessChanges(1.5, cpu=1.2, main_cpu=1.2, switches=40, stack=True)


def frames(*calls: str, line: int = 8) -> tuple[Frame, ...]:
    """``file:function`` innermost first, above a line of the job's own ``train.py``."""
    inner = tuple(Frame(call.rpartition(":")[2], call.rpartition(":")[0], 1) for call in calls)
    return (*inner, Frame("<module>", "train.py", line, own=True))


def call(name: str, line: int = 8) -> tuple[Frame, ...]:
    """In a collective."""
    return frames(f"{C10D}:{name}", line=line)


RENDEZVOUS = frames("torch/distributed/rendezvous.py:_create_c10d_store", f"{C10D}:init_process_group")
MAKING = frames(f"{C10D}:_new_process_group_helper", f"{C10D}:init_process_group")


def process(rank: int | None, stack: tuple[Frame, ...], **changes: Any) -> JobProcess:
    """A rank that waits where ``stack`` says and does not move."""
    system = changes.pop("call", "futex")
    threads = changes.pop("threads", ("gloo_tcp_loop", "pt_gloo_runloop"))
    pid = changes.pop("pid", 100 + (rank or 0))
    main = JobThread(
        pid,
        "python",
        changes.get("state", "S"),
        call=system,
        timed=changes.pop("timed", None),
        reads=changes.pop("reads", ""),
        frames=stack,
        left=changes.pop("left", None),
    )
    # gloo's thread waits for its peers with a time limit where it runs a collective.
    others = tuple(JobThread(pid + 1000, name, "S", call="futex", timed="in a" in name) for name in threads)
    one = JobProcess(
        pid, 1, "rank", "python", "S", "me", 100.0, rank, world_size=4, torch="2.13.0", threads=(main, *others),
        sockets=(), moved=STILL,
    )  # fmt: skip
    return replace(one, **changes)


def store(joined: Sequence[int], world: int = 4, **changes: Any) -> StoreView:
    """A store in which these ranks have joined; two on each host."""
    at: dict[int, tuple[str, int]] = {r: (f"host{r // 2}", 4000 + r) for r in joined} | changes.pop("members_at", {})
    members = tuple(Member(r, at[r][0], f"10.0.0.{int(at[r][0][-1]) + 1}", at[r][1], world) for r in joined)
    groups = (GroupView("default_pg/0", joined=tuple(joined), members=members),) if joined else ()
    view = StoreView("host0", 29500, "read", Contact("10.0.0.1", 29500, "open"), groups=groups, clients=len(joined))
    return replace(view, **{"expected_world": world, **changes})


def node(*processes: JobProcess, name: str = "host0", stores: Sequence[StoreView] = (), **changes: Any) -> NodeFacts:
    """Return what one host shows."""
    job = JobFacts("job", "env", "", "host0", 29500, nnodes=2, world_size=4, processes=processes, stores=tuple(stores))
    identity = Identity(name, "boot", name, 1, "0", "3")
    return NodeFacts(identity, Plan(nnodes=2, nproc_per_node=2, world_size=4), jobs=(replace(job, **changes),))


def syn_sent(address: str, port: int, times: int = 3) -> Socket:
    """A connection that gets no answer."""
    return Socket("SYN_SENT", "10.0.0.9", 50000, address, port, 1, times)
