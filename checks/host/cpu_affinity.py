"""The ranks of a node may use fewer CPUs than there are ranks.

## What you see
The job is many times slower than before, one rank or data loader starves, or watchdogs time out under load. In `top`
(press 1) all ranks share one CPU, and the others are idle.

## Why it happens
Processes inherit their CPUs. `srun` gives a task one CPU by default, and torchrun's ranks share it; `taskset`,
`numactl` and a container's cpuset act alike. A limit on the container's CPU time (docker run --cpus,
resources.limits.cpu) makes all ranks wait in turn.

With OMP_PROC_BIND, OMP_PLACES or GOMP_CPU_AFFINITY, torch's OpenMP binds the first thread of each process to the first
place. That is the same CPU for every rank, and data loaders inherit it.

## Fix
Request one or more CPUs per rank: `export SRUN_CPUS_PER_TASK=16 SLURM_CPU_BIND=none`, or `srun --cpus-per-task=16
--cpu-bind=none`; for a container `docker run --cpuset-cpus 0-15`.

In sbatch, SRUN_CPUS_PER_TASK is needed since SLURM 22.05. Unset variables that bind OpenMP's threads, or give each rank
its own places.

## Confirm with
`srun bash -c 'taskset -cp $$'` prints at least one CPU per rank.

## When it is harmless
On a machine with no more CPUs nothing is reported. With one task per rank each rank has its own CPUs, and nothing is
reported either.

## See also
collective/slow-rank, host/thread-limit
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, launch_variables, names_of, rank_count, together

SEVERITY = "warn"
MATTERS = "ranks wait in turn for a CPU, in every step"
LOOKS_AT = ("host.limits",)
BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
"""With the first three libgomp binds threads (its documentation, GOMP_CPU_AFFINITY), with the last Intel's."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if crowded(node)]
    if bad:
        yield Finding.about(
            bad,
            f"The ranks on {names_of(bad)} share fewer CPUs than there are ranks.",
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
        return Fix.on(
            node,
            f"Raise the CPU limit to {rank_count(node)} or more (docker run --cpus, resources.limits.cpu, CPUQuota=).",
        )
    if names := bound(node):
        text = f"Unset {together(names)}: {'it binds' if len(names) == 1 else 'they bind'} each rank to the same CPUs."
        return Fix.on(node, text, env=dict.fromkeys(names))
    if launch_variables.SLURM_LISTS[0] in node.variables:
        text = "Request a CPU for each rank, or more, without binding."
        return Fix.on(node, text, env={"SRUN_CPUS_PER_TASK": str(rank_count(node)), "SLURM_CPU_BIND": "none"})
    last = (node.limits.cpus_online or 1) - 1
    return Fix.on(node, "Let the shell that starts the job use all CPUs.", commands=(f"taskset -cp 0-{last} $$",))
