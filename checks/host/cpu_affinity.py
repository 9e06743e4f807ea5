"""The ranks of a node may run on fewer CPUs than there are ranks.

What you see
------------
A job that is many times slower than it was, one rank or data loader starved, and watchdog timeouts under load. All
ranks show up on one CPU in `top` (press 1), while the others are idle.

Why it happens
--------------
A process's CPUs are inherited: `srun` gives a task one CPU unless told otherwise, and what torchrun starts in it shares
that one; `taskset`, `numactl` and a container's cpuset do the same. A limit on the container's processor time
(docker run --cpus, resources.limits.cpu) lets all wait in turn, on whichever CPU. Where OMP_PROC_BIND, OMP_PLACES or
GOMP_CPU_AFFINITY is set, the OpenMP that torch loads binds the first thread of each process to the first place: that of
every rank is the same CPU, which data loaders inherit.

Fix
---
`srun --cpus-per-task=N` with as many as the node's ranks need, and SRUN_CPUS_PER_TASK=N where srun is called within
sbatch (since SLURM 22.05 it takes the number from there); `--cpu-bind=none`; docker run --cpuset-cpus. Unset what binds
OpenMP's threads; where they are to be bound, give each rank places of its own.

When it is harmless
-------------------
On a machine that has no more CPUs, nothing is found. Where one process is started for each rank, each has CPUs of its
own, and nothing is said either.

See also
--------
collective/slow-rank, host/thread-limit
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, launch_variables, names_of, rank_count, together

SEVERITY = "warn"
MATTERS = "ranks wait for each other's turn on a CPU, in every step"
LOOKS_AT = ("host.limits",)
BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
"""With the first three libgomp binds threads (its documentation, GOMP_CPU_AFFINITY), with the last Intel's."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if crowded(node)]
    if bad:
        yield Finding.about(
            bad,
            f"The ranks on {names_of(bad)} share fewer CPUs than they are.",
            evidence=(f"{node.name}: {share(node)} for its {rank_count(node)} ranks together" for node in bad),
            fixes=(fix(node) for node in bad),
        )


def crowded(node: Node) -> bool:
    """Return whether all ranks of the node have fewer CPUs than the machine could give them."""
    ours, all_there = node.limits.cpus, node.limits.cpus_online
    if ours is None or all_there is None or node.plan.started != "node":
        return False
    return ours < min(rank_count(node), all_there) or throttled(node) or bool(bound(node))


def bound(node: Node) -> tuple[str, ...]:
    """The variables by which OpenMP binds the ranks, all alike, to fewer CPUs than they are."""
    ours, left = node.limits.cpus, node.identity.torch_cpus
    if ours is None or left is None or left >= min(rank_count(node), ours):
        return ()
    return tuple(name for name in BINDING if node.variables.get(name))


def throttled(node: Node) -> bool:
    """Return whether the cgroup gives less time than each rank would need for a CPU of its own."""
    quota, all_there = node.limits.cpu_quota, node.limits.cpus_online
    return quota is not None and all_there is not None and quota < min(rank_count(node), all_there)


def share(node: Node) -> str:
    if throttled(node):
        return f"the cgroup gives the time of {node.limits.cpu_quota:.2g} CPUs (cpu.max)"
    if names := bound(node):
        place = f"{node.identity.torch_cpus} of {node.limits.cpus} CPUs"
        set_ = together(f"{name}={node.variables[name]}" for name in names)
        return f"a process that has imported torch is bound to {place}, each to the same ({set_}),"
    return f"{node.limits.cpus} of {node.limits.cpus_online} CPUs (sched_getaffinity) are"


def fix(node: Node) -> Fix:
    if throttled(node):
        return Fix.on(node, "Give the container or unit more: docker run --cpus, resources.limits.cpu, CPUQuota=.")
    if names := bound(node):
        return Fix.on(node, "Start the job without it: each rank would have the same place.", env=dict.fromkeys(names))
    if launch_variables.SLURM_LISTS[0] in node.variables:
        text = "Ask for a CPU for each rank, or more, and have them bound to none."
        return Fix.on(node, text, env={"SRUN_CPUS_PER_TASK": str(rank_count(node)), "SLURM_CPU_BIND": "none"})
    last = (node.limits.cpus_online or 1) - 1
    return Fix.on(node, "Let the shell that starts the job use all CPUs.", commands=(f"taskset -cp 0-{last} $$",))
