"""A rank does far less work than the others.

## What you see
No error at first. Every step takes as long as the slowest rank needs; the others wait for it inside their collectives,
at 100 % of a GPU. If it lags more than the timeout (30 minutes, 10 with nccl), the watchdog ends the job. It names a
rank that waited, not the slow one, often with a 1-element ALLREDUCE, which is a barrier.

## Why it happens
All ranks of a node are bound to one processor (OMP or Open MPI settings, `taskset`, `srun --cpu-bind`). Or the
container has a small CPU quota. Or another job uses the node, or the processor is slow (hot, or with a limited
frequency). The check runs the same small work on each rank for 0.15 s on one thread. It repeats it up to six times if
the rank waits for a processor, and compares the best runs.

## Fix
Remove the binding or raise the quota: `srun --cpu-bind=none`, `mpirun --bind-to none`, `docker run --cpus=16`. Or end
the other load on the node.

## Confirm with
`taskset -cp 4711`, `cat /sys/fs/cgroup/cpu.max` and `top` on that node.

## When it is harmless
When the processors of that node have little to do in the job. The check does not measure GPUs here. Several nodes on
one machine (containers, network namespaces) share its processors, so a wait there is chance. The check reports it only
with a binding or a quota.

## See also
mesh/slow-link, barrier/rank-missing, host/leftover-processes
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator
from statistics import median

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, Work, some_of, together

SEVERITY = "warn"
LOG = (
    Line(
        "collective operation timeout",
        "Watchdog caught collective operation timeout",
        shows="symptom",
        why="a rank that died, hangs, or took another path shows the same; the log of the missing rank shows which",
    ),
    Line(
        "Timed out waiting",
        r"Timed out waiting \d+ ?ms for (?:recv|send) operation",
        shows="symptom",
        why="a hanging peer and lost packets show the same",
    ),
)
MATTERS = "every step of the job is as slow as the slowest rank"
LOOKS_AT = ("ranks.work",)
FACTOR = 5.0
"""Factor by which it is slower than the median of the other ranks, in the best of several windows. In a single window,
equal ranks differed by 8 on a machine with twice as many ranks as cores."""
STARVED = 0.5
"""Share of a processor below which a rank waited for it, and was not slow on it."""
SHOWN = 8
MAX_NODES = 64

Worked = tuple[Node, int, Work]


def judge(cluster: Cluster) -> Iterator[Finding]:
    worked = [
        (node, rank.rank, rank.work)
        for node in cluster.nodes
        for rank in node.facts.ranks
        if rank.rank is not None and rank.work is not None
    ]
    rates = sorted(work.rate for _, _, work in worked)
    slow = [
        rank for rank in worked if len(worked) > 1 and rank[2].rate * FACTOR < median_of_others(rates, rank[2].rate)
    ]
    lucky = {(node.identity.boot_id, node) for node, _, _ in (rank for rank in worked if rank not in slow)}
    slow = [rank for rank in slow if not waited_by_chance(rank, lucky)]
    if not slow:
        return
    usual = median(rates[len(slow) :])
    nodes = list(dict.fromkeys(node for node, _, _ in slow))
    groups = [[rank for rank in slow if rank[0] is node] for node in nodes[:MAX_NODES]]
    ranks = tuple(sorted(rank for _, rank, _ in slow))
    slowest = min(work.rate for _, _, work in slow)
    who = f"Rank{'s' if len(ranks) > 1 else ''} {some_of(map(str, ranks))} on {some_of(node.name for node in nodes)}"
    yield Finding.about(
        nodes,
        f"{who} did only 1/{usual / max(slowest, 0.1):.0f} of the work of the other ranks in the same time; all others "
        "wait for it.",
        ranks=ranks,
        evidence=(evidence(group, usual) for group in groups[:SHOWN]),
        fixes=map(fix, groups),
    )


def waited_by_chance(worked: Worked, lucky: Collection[tuple[str, Node]]) -> bool:
    """Return whether the rank waited for processors that it may all use, while another node of its machine used them.

    Next time it may be the other node."""
    node, _, work = worked
    free = work.cpu < STARVED and work.processors >= work.cores and work.quota is None
    machine = node.identity.boot_id
    return free and any(boot == machine != "" and other is not node for boot, other in lucky)


def median_of_others(rates: list[float], rate: float) -> float:
    """Return the median of the sorted ``rates`` without one of them."""
    place = bisect_left(rates, rate)
    middle = ((len(rates) - 2) // 2, (len(rates) - 1) // 2)
    return sum(rates[at + (at >= place)] for at in middle) / 2


def evidence(group: list[Worked], usual: float) -> str:
    node, rank, work = min(group, key=lambda entry: entry[2].rate)
    quota = f", its container may use {work.quota:g}" if work.quota is not None else ""
    return (
        f"{node.name}: rank {rank} had {work.cpu:.0%} of a processor and did {work.rate:.0f} units of work per second, "
        f"others {usual:.0f}; allowed processors: {work.processors} of {work.cores}{quota}; load {work.load:g}"
    )


def fix(group: list[Worked]) -> Fix:
    node, _, work = min(group, key=lambda entry: entry[2].rate)
    ranks = len(node.facts.ranks)
    if work.cpu >= STARVED:
        text = (
            f"On {node.name}, raise the processor's frequency (`cpupower frequency-set -g performance`) or its "
            "cooling. "
            "Confirm with: `cpupower frequency-info`, `sensors`."
        )
    elif work.quota is not None and work.quota < ranks:
        text = (
            f"Give the container on {node.name} more than {work.quota:g} processors for its {ranks} ranks: "
            f"`docker run --cpus={ranks}`, or the CPU limit of the pod."
        )
    elif work.processors < min(ranks, work.cores):
        text = (
            f"On {node.name}, launch without the binding of {ranks} ranks to {work.processors} of {work.cores} "
            "processors: `srun --cpu-bind=none`, `mpirun --bind-to none`, or no taskset or numactl."
        )
    else:
        text = (
            f"On {node.name}, end the other load on the processors of rank "
            f"{together(str(rank) for _, rank, _ in group)}, or start the job on other nodes. Confirm with: `top`."
        )
    return Fix.on(node, text)
