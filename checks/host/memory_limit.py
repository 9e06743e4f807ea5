"""The memory limit is too low for the ranks.

## What you see
A rank is killed during the import of torch or its first tensors: `exitcode: -9`, `Killed`, `OOMKilled` in Kubernetes,
`slurmstepd: error: Detected 1 oom_kill event`. The other ranks wait for it. If the group may not kill
(`--oom-kill-disable`) or slows down first (`memory.high`), the rank stops in state D, and the job hangs.

## Why it happens
The memory limit of the cgroup (docker run --memory, a pod's limits, SLURM's --mem) covers all its processes. Each rank
imports torch for itself, which takes some hundred megabytes before any allocation.

Limits of each process (ulimit -d, ulimit -v; limits.conf) end ranks with other messages. A thread's stack is memory,
too, so `Resource temporarily unavailable` may come from such a limit. CUDA reserves addresses for all memory of the
host and the GPU: with a lower `ulimit -v` torch sees no GPU and prints `out of memory`.

## Fix
Raise the limit, `srun --mem=64G` or `docker run --memory 64g`, or start fewer ranks on the node; remove limits of
ulimit in the shell that starts the job: `ulimit -v unlimited`.

## Confirm with
`cat /sys/fs/cgroup/memory.max; ulimit -v; ulimit -d` shows the limits in the job's environment.

## When it is harmless
If the ranks barely fit, the finding is a WARN: the model and the data still need memory.

## See also
process/killed-by-oom, environment/torch-broken
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, errors_with_words, gpus, live, names_of, rank_count

SEVERITY = "fail"
MATTERS = "the ranks fit only at their start; the model and the data need more"
PREVENTS = "store used"
LOOKS_AT = ("host.limits",)
AMPLE = 1.5
"""Factor over the minimum that should be available."""
MIB = 1 << 20
OF_A_PROCESS = (("data", "d", 1024 * MIB), ("address space", "v", 4096 * MIB))
"""Limits of ulimit: name, letter, and the bytes below which they are reported. A rank of torch 2.13 for CPUs has 286
MiB of data and 904 MiB of address space after a step of the smallest model."""
WORDS = (
    "Resource temporarily unavailable",
    "Cannot allocate memory",
    "not enough memory",
    "bad_alloc",
    "MemoryError",
    "can't start new thread",
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    yield from of_cgroups(cluster)
    yield from of_processes(cluster)


def of_cgroups(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if (least := need(node)) and bytes_left(node) < AMPLE * least]
    short = [node for node in bad if bytes_left(node) < (need(node) or 0)]
    blamed = short or bad
    if blamed:
        enough = "" if short else ": enough to start, but little more"
        yield Finding.about(
            blamed,
            f"The memory limit on {names_of(blamed)} is too low for the ranks there{enough}.",
            severity="fail" if short else "warn",
            evidence=(evidence_line(node) for node in blamed),
            fixes=(Fix.on(node, fix_text(node)) for node in blamed),
        )


def of_processes(cluster: Cluster) -> Iterator[Finding]:
    """The limits of ulimit. Where torch could not even be imported, that says it."""
    bad = {
        node: reasons_of for node in cluster.nodes if node.identity.torch_failure is None and (reasons_of := low(node))
    }
    if not bad:
        return
    errors = errors_with_words(cluster, WORDS)
    for node in filter(gpus.cuda_short_of_addresses, bad):
        reasons = (f"{node.name}: torch sees no GPU: {text}" for text in gpus.gpu_reasons(node))
        errors[node.name] = (*errors.get(node.name, ()), *reasons)
    refused = [node for node in bad if node.name in errors]
    blamed = refused or list(bad)
    yield Finding.about(
        blamed,
        f"A limit on {names_of(blamed)} allows each process only little memory.",
        title="A limit allows each process too little memory",
        severity="fail" if refused else "warn",
        evidence=(line for node in blamed for line in (*bad[node].values(), *errors.get(node.name, ()))),
        fixes=(
            Fix.on(
                node,
                "Remove the limit in the shell that starts the job; if that is refused, request more from the "
                "scheduler "
                "(SGE: h_vmem; PBS: pvmem).",
                commands=(f"ulimit -{letter} unlimited" for letter in bad[node]),
            )
            for node in blamed
        ),
    )


def low(node: Node) -> dict[str, str]:
    """ulimit's letter of each limit that is low, and what was seen of it."""
    limits = zip(OF_A_PROCESS, (node.limits.data_segment, node.limits.address_space), strict=True)
    return {
        letter: f"{node.name}: the limit on {what} (ulimit -{letter}) is {limit // MIB:,} MiB for each process"
        for (what, letter, least), limit in limits
        if limit is not None and (0 <= limit < least or (letter == "v" and gpus.cuda_short_of_addresses(node)))
    }


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    """Ranks that the kernel keeps waiting for memory: their control group has none left, and none is killed for it."""
    job = live.job_of(cluster)
    inside = [rank for rank in job.ranks if rank.place.kind == live.places.MEMORY] if job else []
    stuck = [rank for rank in inside if not rank.works and not rank.pauses]
    if job is None or not stuck:
        return
    nodes = list(dict.fromkeys(rank.node for rank in stuck))
    waits = "waits" if len(stuck) == 1 else "wait"
    yield live.rank_finding(
        stuck,
        f"{live.ranks_called(stuck)} on {names_of(nodes)} {waits} in the kernel for memory: the cgroup has none left.",
        evidence=(*live.where_ranks_are(stuck), *live.waiting_evidence(job, stuck)),
        fixes=(
            Fix.on(nodes, "Raise the cgroup's limit (memory.high, memory.max; --memory), or end its other processes."),
        ),
    )


def need(node: Node) -> int | None:
    """Bytes that the ranks take at least, each having imported torch for itself; None where that is not known."""
    each = node.identity.torch_memory
    if each is None or node.limits.memory is None or node.limits.memory_used is None:
        return None
    return each * rank_count(node)


def bytes_left(node: Node) -> int:
    """Bytes that the cgroup had left before torch was imported."""
    return (node.limits.memory or 0) - (node.limits.memory_used or 0)


def evidence_line(node: Node) -> str:
    most, used, each = (
        (value or 0) // MIB for value in (node.limits.memory, node.limits.memory_used, node.identity.torch_memory)
    )
    return (
        f"{node.name}: the cgroup limit is {most} MiB, with {used} MiB in use; each of the {rank_count(node)} ranks "
        f"takes {each} MiB after importing torch"
    )


def fix_text(node: Node) -> str:
    wanted = (node.limits.memory_used or 0) + 4 * (need(node) or 0)
    size = -(-wanted // (1 << 30))
    return f"Raise the limit to {size} GiB or more (docker run --memory, the pod's limit, SLURM's --mem)."
