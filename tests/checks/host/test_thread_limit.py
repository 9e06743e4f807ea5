"""host/thread-limit: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distdoctor.model.facts import Bind, StageFacts
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.limits import KILLED, limited, on
from tests.facts_builder import (
    alone,
    failing,
    healthy,
    judged,
    met,
    rank_node,
    waited_in_vain,
    with_meeting,
    with_network,
    with_variables,
)

CHECK = "host/thread-limit"
MACHINE = {"threads": 900, "threads_max": 190_000}


def one(**limits: int) -> Facts:
    """Of node 1, which has 2 ranks."""
    return on((1,), **{**MACHINE, **limits})


def of_user(hard: int) -> Facts:
    return one(processes=100, processes_hard=hard, user_processes=90)


def refused() -> Facts:
    zero, one = on((1,), pids_max=12, pids_used=6, **MACHINE)
    return failing(zero, "gloo", KILLED, killed=True), failing(
        one, "gloo", "RuntimeError: Resource temporarily unavailable"
    )


def refused_with(most: int) -> Facts:
    """A process or thread is refused on node 1, whose user has ``most``, and 10 of them in sight."""
    zero, one = on((1,), processes=most, processes_hard=most, user_processes=10, **MACHINE)
    return failing(zero, "gloo", KILLED, killed=True), failing(
        one, "gloo", "RuntimeError: Resource temporarily unavailable"
    )


def refused_early() -> Facts:
    """Node 1 cannot even begin to look at the network, and so never meets node 0."""
    zero, one = on((1,), pids_max=12, pids_used=6, **MACHINE)
    stages = (*one.stages[:2], StageFacts("network", "error", reason="RuntimeError: can't start new thread"))
    return waited_in_vain(zero), alone(replace(one, stages=stages, ranks=()))


def none_at_all() -> Facts:
    """Node 1 has no thread left for the look at its limits."""
    zero, one = healthy(2)
    words = "RuntimeError: can't start new thread"
    broken = tuple(StageFacts(stage, "error", reason=words) for stage in ("host", "gpu", "network"))
    return waited_in_vain(zero), alone(replace(one, stages=(*one.stages[:1], *broken), host=None, ranks=()))


def store_died(said: str = "the process closed its channel") -> Facts:
    """The process that was to host node 0's store could not have its threads, and said nothing, or that."""
    zero, one = on((0,), processes=20, processes_hard=20, user_processes=14, **MACHINE)
    bind = Bind(False, 29500, errno=0, error=said, free_port=29501)
    return with_network(alone(zero), bind=bind), waited_in_vain(one)


def once_per_rank(threads: str | None) -> Facts:
    """One rank on each node, where nobody sets OMP_NUM_THREADS; 64 CPUs."""
    nodes = (
        limited(rank_node(f"host{rank}", rank), cpus=64, cpus_online=64, pids_max=100, pids_used=10)
        for rank in range(2)
    )
    return met(*(with_variables(node, OMP_NUM_THREADS=threads) if threads else node for node in nodes))


def too_many_threads() -> Facts:
    zero, told = one(pid_max=32768, cpus=8, cpus_online=8)
    return zero, with_variables(told, OMP_NUM_THREADS="40000")


def one_node(**meeting: Any) -> Facts:
    """Of one node, whose user has no room for its ranks: the store, or what is to come to it, ended without a word."""
    (only,) = healthy(1)
    only = limited(only, processes=14, processes_hard=14, user_processes=11, **MACHINE)
    return (with_meeting(only, **meeting),)


def ranks_died() -> Facts:
    (only,) = one_node(host_lost=True)
    return (failing(only, "store", "the process closed its channel", died=True),)


def aborted(most: int, used: int) -> Facts:
    """A thread that the ranks of node 1 start for gloo is refused where nobody catches that. On a busy machine the
    check's own threads were not all there yet when it counted."""
    zero, one = on((1,), pids_max=most, pids_used=used, **MACHINE)
    return failing(zero, "gloo", KILLED, killed=True), failing(
        one, "gloo", "the process was ended by signal 6", died=True
    )


ROWS = [
    Row("a rank aborted where it had no thread", lambda: aborted(12, 4), ("host1",), together=True),
    Row("no thread for the look at the limits", none_at_all, ("host1",), together=True),
    Row("the store of one node ended", lambda: one_node(host_lost=True), ("host0",)),
    Row("one node lost itself", lambda: one_node(lost=(healthy(1)[0].key,)), ("host0",)),
    Row("its ranks ended, too", ranks_died, ("host0",)),
    Row("the ranks cannot have their threads", refused, ("host1",), together=True),
    Row("the user has more processes in other containers", lambda: refused_with(64), ("host1",), together=True),
    Row("the node itself cannot have a thread", refused_early, ("host1",), together=True),
    Row("the process of the store cannot have its threads", store_died, ("host0",), together=True),
    Row(
        "it said so",
        lambda: store_died("OSError: [Errno 0] Resource temporarily unavailable"),
        ("host0",),
        together=True,
    ),
    Row("a sandbox that forbids threads", lambda: one(threads_forbidden=True), ("host1",), together=True),
    Row("a container's limit", lambda: one(pids_max=20, pids_used=6), ("host1",), "warn", together=True),
    Row(
        "the user's",
        lambda: one(processes=100, processes_hard=100, user_processes=90),
        ("host1",),
        "warn",
        together=True,
    ),
    Row("the machine's", lambda: one(threads=3990, threads_max=4000), ("host1",), "warn", together=True),
    Row("the numbers of processes", lambda: one(pid_max=910), ("host1",), "warn", together=True),
    Row("a container's own numbers", lambda: one(pid_max=330, pids_seen=320), ("host1",), "warn", together=True),
    Row("more threads than numbers", too_many_threads, ("host1",), "warn", together=True),
    Row("a thread for each of 64 CPUs", lambda: once_per_rank(None), ("host0", "host1"), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("the usual limits", lambda: one(processes=95_000, pids_max=28_000, pids_used=40)),
    LookAlike("the usual numbers of a small machine", lambda: one(pid_max=32768)),
    LookAlike("few in a container of a large machine", lambda: one(threads=190, pid_max=400, pids_seen=8)),
    LookAlike("root, whom the user's limit does not bind", lambda: one(processes=8)),
    LookAlike("no limit", lambda: one(processes=-1, user_processes=70_000)),
    LookAlike("what is used is not known", lambda: one(pids_max=12)),
    LookAlike("few threads by OMP_NUM_THREADS", lambda: once_per_rank("1")),
]

CURES = [
    Cure("fewer threads", too_many_threads, {"host1": {"env": {"OMP_NUM_THREADS": "4"}}}),
    Cure("pid_max", lambda: one(pid_max=910), {"host1": {"commands": ("sysctl -w kernel.pid_max=1024",)}}),
    Cure("ulimit", lambda: of_user(4096), {"host1": {"commands": ("ulimit -u 256",)}}),
    Cure(
        "the machine's",
        lambda: one(threads=3990, threads_max=4000),
        {"host1": {"commands": ("sysctl -w kernel.threads-max=4096",)}},
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_an_abort_where_there_is_room_is_no_limits_doing() -> None:
    assert [finding.id for finding in judged(*aborted(24, 4)).roots] == ["barrier/rank-missing"]


def test_a_large_limit_of_the_user_is_not_used_up_by_what_is_not_seen() -> None:
    assert "host/thread-limit" not in {finding.check for finding in judged(*refused_with(60_000)).findings}
