"""A rank had no CPU for most of a stage.

## What you see
The check is INCOMPLETE: a stage did not end in time on some ranks, or the others waited for a late rank. In a job every
step takes many times longer, and finally `Timed out waiting ... for recv`.

## Why it happens
The rank was ready to run but got no CPU. Other programs used the CPUs, or its cgroup's limit throttled it (cpu.max,
docker run --cpus, resources.limits.cpu, CPUQuota=). The kernel counts that time per thread (/proc/PID/schedstat) and
per cgroup (cpu.stat). Waiting for a peer, a disk or a lock does not count.

A stage of the check has some seconds; torch gives a job 30 minutes.

## Fix
End or move the other programs, `top` shows them, or raise the limit (`docker run --cpus 16`), then check again.

`--timeout` extends the check as a whole, but not a single stage.

## Confirm with
`cat /sys/fs/cgroup/cpu.stat` shows throttled_usec unchanged, and `uptime` shows a load below the number of CPUs.

## When it is harmless
The machine is only busy now, and will be free when the job runs. It is unknown if the job would start.

## See also
host/cpu-affinity, collective/slow-rank, barrier/rank-stopped, host/leftover-processes
"""

from distdoctor.check_api import Cluster, FailedRank, Finding, Fix, Iterator, Node, names_of, starved_ranks

SEVERITY = "warn"
MATTERS = "the stages that failed waited for it; the job waits longer, and may start"
INCOMPLETE = True
LOOKS_AT = ("ranks.store",)
FOLLOWS = ("host/cpu-affinity",)
EVERYTHING_ELSE = "End the other programs there, or wait for their end; `top` shows them."
QUOTA = "Raise the limit: docker run --cpus, resources.limits.cpu, CPUQuota= of the unit."


def judge(cluster: Cluster) -> Iterator[Finding]:
    starved = starved_ranks(cluster)
    if not starved:
        return
    nodes = list(dict.fromkeys(starved_rank.node for starved_rank in starved))
    yield Finding.about(
        nodes,
        f"The ranks on {names_of(nodes)} were ready to run but had no CPU for {starved_text(starved[0])}.",
        ranks=[starved_rank.rank.rank for starved_rank in starved if starved_rank.rank.rank is not None],
        evidence=(
            f"{starved_rank.node.name} rank {starved_rank.rank.rank}: no CPU for {starved_text(starved_rank)}"
            for starved_rank in starved
        ),
        fixes=(fix(node) for node in nodes),
    )


def starved_text(starved_rank: FailedRank) -> str:
    starved = starved_rank.stage.detail.get("starved")
    kept = float(starved) if isinstance(starved, (int, float)) else 0.0
    return f"{kept:.1f} s of the {max(starved_rank.stage.seconds, kept):.1f} s of {starved_rank.stage.stage}"


def fix(node: Node) -> Fix:
    quota = node.limits.cpu_quota
    return Fix.on(node, EVERYTHING_ELSE if quota is None else f"{QUOTA} It is now the time of {quota:.2g} CPUs.")
