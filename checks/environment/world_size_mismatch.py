"""The nodes disagree on the size of the job.

## What you see
Nodes that expect more wait for 30 minutes (`1/3 clients joined`). Nodes that expect fewer start, then hang or stop with
`Invalid rank requested` in the first collective. The store may count more workers than the world has (`world_size=2,
worker_count=8`).

## Why it happens
The number of nodes changed in one script only, or WORLD_SIZE was set by hand on one of the hosts.

## Fix
Give all nodes the same --nnodes (or WORLD_SIZE), the real number: `torchrun --nnodes 2 ...`.

Different --nproc-per-node are legal; the world size is then the sum.

## Confirm with
`for h in host0 host1; do ssh $h 'pgrep -af torchrun; env | grep WORLD_SIZE'; done` prints the same size for every node.

## When it is harmless
With an elastic launch (--nnodes MIN:MAX and the c10d rendezvous) whose limits both allow the number of nodes that
joined.

## See also
environment/invalid-variable, store/nodes-missing
"""

from collections import Counter

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, live, set_launch_fix, together

SEVERITY = "fail"
MATTERS = "the nodes that joined may start; with more nodes, the last one to join decides the size"
LOG = (
    Line(
        ("global rank", "Global rank"),
        r"[Gg]lobal rank \d+ (?:is )?(?:out of range|>=|must be less|exceeds).{0,40}world.?size",
    ),
    Line(
        "Bootstrap Root : mismatch in ",  # NCCL's, of ncclCommInitRank()
        r"mismatch in rank count from procs|mismatch in info from procs, nranks (?P<one>\d{1,7}) vs (?!(?P=one),)\d",
    ),
    Line(
        "store based barrier",
        r"world_size=(?P<expected>\d{1,9}), (?:worker_count|num_workers_joined)=(?P<here>\d{1,9})",
        above=("here", "expected"),
        shows="symptom",
        why="workers of an earlier start, counted again after a restart or in a leftover file, show the same",
    ),
)
PREVENTS = "plan agreed"
LOOKS_AT = ("everyone",)
FOLLOWS = ("environment/invalid-variable",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    for started, what in (("node", "nnodes"), ("rank", "world_size")):
        nodes = [n for n in cluster.nodes if n.plan.started == started]
        everywhere = Counter(getattr(facts.plan, what) for facts in cluster.slices)
        values = {n.name: value for n in nodes for value in sizes(cluster, n, what, everywhere)}
        counts = Counter(values.values())
        if len(counts) > 1:
            yield finding(cluster, [n for n in nodes if n.name in values], values, counts, what)


def sizes(cluster: Cluster, node: Node, what: str, everywhere: Counter[int | None]) -> list[int]:
    """The size this node gives; of a node's several ranks the one that differs from the most usual."""
    plans = [facts.plan for facts in cluster.slices_of.get(node.name, ())] or [node.plan]
    values_here = [value for plan in plans if (value := getattr(plan, what)) is not None]
    return sorted(values_here, key=lambda value: everywhere[value])[:1]


def finding(cluster: Cluster, nodes: list[Node], values: dict[str, int], counts: Counter[int], what: str) -> Finding:
    (first, count), *rest = counts.most_common()
    majority = count > sum(n for _, n in rest)
    blamed = [n for n in nodes if not majority or values[n.name] != first]
    here = sum(1 for _ in cluster.slices) if what == "world_size" else len(cluster.nodes)
    options = sorted(counts, key=lambda value: (value != here, not majority or value != first, value))
    options = [value for value in options if value >= here] or options  # with less, those who came would be too many
    word = "--nnodes" if what == "nnodes" else "WORLD_SIZE"
    parts = [f"{value} on {together(n.name for n in nodes if values[n.name] == value)}" for value in sorted(counts)]
    return Finding.about(
        blamed,
        f"The nodes disagree on {word}: {'; '.join(parts)}. {here} joined.",
        severity="warn" if what == "nnodes" and all_may_start(cluster, nodes) else "fail",
        unsure=not majority,
        evidence=(f"{n.name}: {what} {values[n.name]} (from {n.plan.sources.get(what, 'default')})" for n in nodes),
        fixes=(
            set_launch_fix(node, f"Set {word} to {value} on {node.name}.", what, value, number)
            for number, value in enumerate(options[:2], start=1)
            for node in nodes
            if values[node.name] != value
        ),
    )


def all_may_start(cluster: Cluster, nodes: list[Node]) -> bool:
    """Return whether the number of joined nodes fits the elastic limits of every node.

    c10d's agents compare no MAX, and start MIN or more after the last call (rendezvous/dynamic_rendezvous.py,
    _add_to_participants).
    """
    least = {node.plan.min_nodes for node in nodes}
    most = min((node.plan.nnodes or 0 for node in nodes), default=0)
    elastic = len(least) == 1 and None not in least and all(node.plan.rdzv_backend == "c10d" for node in nodes)
    return elastic and all((low or 0) <= len(cluster.nodes) <= most for low in least)


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None or len(job.worlds) < 2:
        return
    by_size = dict(sorted(job.worlds.items()))
    usual = max(by_size, key=lambda size: len(by_size[size]))
    alone = len({len(ranks) for ranks in by_size.values()}) > 1
    blamed = sorted({rank for size, ranks in by_size.items() if size != usual or not alone for rank in ranks})
    nodes = tuple(dict.fromkeys(host for rank in blamed if (host := job.host_of(rank))))
    parts = [f"{size} by rank{'s' if len(r) > 1 else ''} {together(map(str, r[:8]))}" for size, r in by_size.items()]
    yield Finding.about(
        nodes,
        f"The ranks disagree on WORLD_SIZE: {'; '.join(parts)}. They wait for ranks that do not exist.",
        ranks=blamed,
        unsure=not alone,
        evidence=(
            f"rank {rank}{f' on {job.host_of(rank)}' if job.host_of(rank) else ''}: WORLD_SIZE {size}"
            for size, ranks in by_size.items()
            for rank in ranks[:4]
        ),
        fixes=(Fix("Start all ranks with the same WORLD_SIZE.", nodes),),
    )
