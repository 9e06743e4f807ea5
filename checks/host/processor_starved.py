"""A rank had no processor for most of a stage.

What you see
------------
A check that is INCOMPLETE: a stage that other ranks ended in time did not come to its end, or they waited for one that
came late. In a job: every step takes many times longer than it did, and in time `Timed out waiting ... for recv`.

Why it happens
--------------
The rank was ready to run and was not let: other programs had the processors, or a limit of its control group (cpu.max,
docker run --cpus, resources.limits.cpu, CPUQuota=) held it back. The kernel counts that time for each thread
(/proc/PID/schedstat) and each control group (cpu.stat), and not that of one that waits for a peer, a disk or a lock. A
stage of the check has some seconds; torch gives a job 30 minutes.

Fix
---
End or move what else runs there, or raise the limit, and check again. With `--timeout` the check waits longer
as a whole, but not for a single stage.

When it is harmless
-------------------
When the machine is only busy now, and will not be when the job runs. Whether the job would start is not known.

See also
--------
host/cpu-affinity, collective/slow-rank, barrier/rank-stopped, host/leftover-processes
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, FailedRank, Finding, Fix, Node, names_of, starved_ranks

SEVERITY = "warn"
MATTERS = "what failed meanwhile was waiting for it; whether the job, which waits longer, would fail is not known"
INCOMPLETE = True
LOOKS_AT = ("ranks.store",)
FOLLOWS = ("host/cpu-affinity",)
EVERYTHING_ELSE = "End what else runs there, or wait until it is done; `top` shows it."
QUOTA = "Raise the limit: docker run --cpus, resources.limits.cpu, CPUQuota= of the unit."


def judge(cluster: Cluster) -> Iterator[Finding]:
    starved = starved_ranks(cluster)
    if not starved:
        return
    nodes = list(dict.fromkeys(one.node for one in starved))
    yield Finding.about(
        nodes,
        f"The ranks on {names_of(nodes)} were ready to run and had no processor: {said(starved[0])}.",
        ranks=[one.rank.rank for one in starved if one.rank.rank is not None],
        evidence=(f"{one.node.name} rank {one.rank.rank}: no processor for {said(one)}" for one in starved),
        fixes=(fix(node) for node in nodes),
    )


def said(one: FailedRank) -> str:
    starved = one.stage.detail.get("starved")
    kept = float(starved) if isinstance(starved, (int, float)) else 0.0
    return f"{kept:.1f} s of the {max(one.stage.seconds, kept):.1f} s of {one.stage.stage}"


def fix(node: Node) -> Fix:
    quota = node.limits.cpu_quota
    return Fix.on(node, EVERYTHING_ELSE if quota is None else f"{QUOTA} Here it is the time of {quota:.2g} processors.")
