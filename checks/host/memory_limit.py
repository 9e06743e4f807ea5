"""The container or unit has too little memory for its ranks.

What you see
------------
A rank is killed while it imports torch or makes its first tensors: `exitcode: -9`, `Killed`, `OOMKilled` in Kubernetes,
`slurmstepd: error: Detected 1 oom_kill event`. The other ranks wait for it.

Why it happens
--------------
The memory limit of the cgroup (docker run --memory, a pod's limits, SLURM's --mem) is for all processes in it together.
Each rank imports torch for itself, which takes some hundred megabytes of its own before it has allocated anything.

Fix
---
Raise the limit, or start fewer ranks on the node.

When it is harmless
-------------------
Where it would just do it is a warning: the model and the data have yet to come.

See also
--------
process/killed-by-oom, environment/torch-broken
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, names_of, rank_count

SEVERITY = "fail"
MATTERS = "the ranks fit in while they only start; the model and the data come on top"
PREVENTS = "store used"
LOOKS_AT = ("host.limits",)
AMPLE = 1.5
"""How many times the least should be there."""
MIB = 1 << 20


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if (least := need(node)) and left(node) < AMPLE * least]
    short = [node for node in bad if left(node) < (need(node) or 0)]
    blamed = short or bad
    if blamed:
        enough = "" if short else ": enough to start, but little above that"
        yield Finding.about(
            blamed,
            f"The memory limit on {names_of(blamed)} is too low for the ranks there{enough}.",
            severity="fail" if short else "warn",
            evidence=(seen(node) for node in blamed),
            fixes=(Fix.on(node, fix_said(node)) for node in blamed),
        )


def need(node: Node) -> int | None:
    """Bytes that the ranks take at least, each having imported torch for itself; None where that is not known."""
    each = node.identity.torch_memory
    if each is None or node.limits.memory is None or node.limits.memory_used is None:
        return None
    return each * rank_count(node)


def left(node: Node) -> int:
    """Bytes that the cgroup had left before torch was imported."""
    return (node.limits.memory or 0) - (node.limits.memory_used or 0)


def seen(node: Node) -> str:
    most, used, each = (
        (value or 0) // MIB for value in (node.limits.memory, node.limits.memory_used, node.identity.torch_memory)
    )
    return (
        f"{node.name}: the cgroup may use {most} MiB, and {used} MiB were used; a process that has imported torch has "
        f"{each} MiB of its own, and there are {rank_count(node)} ranks"
    )


def fix_said(node: Node) -> str:
    wanted = (node.limits.memory_used or 0) + 4 * (need(node) or 0)
    return f"Raise it to {-(-wanted // (1 << 30))} GiB or more (docker run --memory, the pod's limit, SLURM's --mem)."
