"""A rank gets far less work done than the others.

What you see
------------
No error at first. Every step takes as long as the slowest rank needs; the others wait for it inside their collectives,
at 100 % of a GPU. Where it lags more than the timeout behind (30 minutes, 10 with nccl), the watchdog ends the job, and
names a rank that waited, not the one that was waited for: often with a 1-element ALLREDUCE, which is a barrier.

Why it happens
--------------
All ranks of a node bound to one processor (by OMP or Open MPI settings, `taskset`, `srun --cpu-bind`), a container
with a small CPU quota, another job on the same node, or a processor that runs slowly: hot, or with its frequency
held down. Each rank does the same small work for 0.15 s on one thread, up to six times where it was kept waiting for a
processor; what is compared is how often it got through in the best of them.

Fix
---
Give the ranks the processors they need: launch without the binding, raise the quota, end or move what else runs there.

When it is harmless
-------------------
When the processors of that node have little to do in the job. The work of GPUs is not measured here. Several nodes on
one machine (containers, network namespaces) share its processors: which of them were kept waiting is luck, and is not
told unless a binding or a quota is why.

See also
--------
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
        why="a rank that died, hangs, or took another path shows the same; only the log of the rank that is "
        "not among these tells",
    ),
    Line(
        "Timed out waiting",
        r"Timed out waiting \d+ ?ms for (?:recv|send) operation",
        shows="symptom",
        why="a peer that hangs, or packets that are lost, show the same",
    ),
)
MATTERS = "every step of the job would be as slow as the slowest rank"
LOOKS_AT = ("ranks.work",)
FACTOR = 5.0
"""How many times slower than the median of the other ranks, in the best of several windows: in a single one, ranks that
are alike differed by 8 on a machine with twice as many ranks as cores."""
STARVED = 0.5
"""Share of a processor below which a rank was kept waiting for it, not slow on it."""
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
    slow = [one for one in worked if len(worked) > 1 and one[2].rate * FACTOR < median_of_others(rates, one[2].rate)]
    lucky = {(node.identity.boot_id, node) for node, _, _ in (one for one in worked if one not in slow)}
    slow = [one for one in slow if not out_of_luck(one, lucky)]
    if not slow:
        return
    usual = median(rates[len(slow) :])
    nodes = list(dict.fromkeys(node for node, _, _ in slow))
    groups = [[one for one in slow if one[0] is node] for node in nodes[:MAX_NODES]]
    ranks = tuple(sorted(rank for _, rank, _ in slow))
    slowest = min(work.rate for _, _, work in slow)
    who = f"Rank{'s' if len(ranks) > 1 else ''} {some_of(map(str, ranks))} on {some_of(node.name for node in nodes)}"
    yield Finding.about(
        nodes,
        f"{who} got as little as 1/{usual / max(slowest, 0.1):.0f} of the work done that other ranks did in the same "
        "time: they will all wait for it.",
        ranks=ranks,
        evidence=(evidence(group, usual) for group in groups[:SHOWN]),
        fixes=map(fix, groups),
    )


def out_of_luck(one: Worked, lucky: Collection[tuple[str, Node]]) -> bool:
    """Return whether the rank was kept waiting for processors that it may all use, and that another node of its
    machine has used meanwhile: what else runs there runs for both of them, and next time it may be the other one."""
    node, _, work = one
    free = work.cpu < STARVED and work.processors >= work.cores and work.quota is None
    machine = node.identity.boot_id
    return free and any(boot == machine != "" and other is not node for boot, other in lucky)


def median_of_others(rates: list[float], one: float) -> float:
    """The median of the sorted ``rates`` without one of them."""
    place = bisect_left(rates, one)
    middle = ((len(rates) - 2) // 2, (len(rates) - 1) // 2)
    return sum(rates[at + (at >= place)] for at in middle) / 2


def evidence(group: list[Worked], usual: float) -> str:
    node, rank, work = min(group, key=lambda one: one[2].rate)
    quota = f", its container may use {work.quota:g}" if work.quota is not None else ""
    return (
        f"{node.name}: rank {rank} had {work.cpu:.0%} of a processor and did {work.rate:.0f} pieces of work a second, "
        f"others {usual:.0f}; it may run on {work.processors} of {work.cores} processors{quota}; load average "
        f"{work.load:g}"
    )


def fix(group: list[Worked]) -> Fix:
    node, _, work = min(group, key=lambda one: one[2].rate)
    ranks = len(node.facts.ranks)
    if work.cpu >= STARVED:
        text = (
            f"On {node.name}, look at the processor's frequency and temperature (lscpu; cpupower frequency-info; "
            "sensors): it works slowly though nobody takes it away."
        )
    elif work.quota is not None and work.quota < ranks:
        text = (
            f"Give the container on {node.name} more than {work.quota:g} processors for its {ranks} ranks: docker run "
            "--cpus=N, or the CPU limit of the pod."
        )
    elif work.processors < min(ranks, work.cores):
        text = (
            f"On {node.name}, launch without the binding that leaves {ranks} ranks {work.processors} of {work.cores} "
            "processors: taskset, numactl, srun --cpu-bind, mpirun --bind-to."
        )
    else:
        text = (
            f"On {node.name}, look at what else uses the processors of rank "
            f"{together(str(rank) for _, rank, _ in group)} (top): start the job when that has ended, or elsewhere."
        )
    return Fix.on(node, text)
