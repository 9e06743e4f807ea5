"""/dev/shm is too small.

## What you see
NCCL: `No space left on device` with `Error while creating shared memory segment /dev/shm/nccl-...`. DataLoader workers:
`unable to allocate shared memory`, `Bus error`, or only `exitcode: -7`, in the first batches. Workers of vLLM and
SGLang: the same `Bus error` at the start.

## Why it happens
Docker and Kubernetes give a container 64 MB of shared memory. NCCL puts the buffers between the ranks of a node there,
DataLoader workers pass every batch through it, and vLLM and SGLang their orders. Segments of crashed runs also fill it.

## Fix
Enlarge it: `docker run --shm-size=16g` (or --ipc=host); in Kubernetes mount an emptyDir with medium Memory at /dev/shm;
on a host `mount -o remount,size=16g /dev/shm`.

Remove the leftovers of crashed runs: /dev/shm/nccl-* and /dev/shm/torch_*.

## Confirm with
`df -h /dev/shm` shows 16G with free space on every node.

## When it is harmless
The job uses gloo, or the check itself created its NCCL group, and its DataLoaders have no workers. The finding is then
a WARN: the job runs.

## See also
host/shared-memory-permission
"""

from distdoctor.check_api import (
    Cluster,
    Ended,
    Finding,
    Fix,
    Iterator,
    Line,
    Node,
    SharedMemory,
    gpus,
    names_of,
    plans_nccl_group,
    rank_count,
    together,
)

SEVERITY = "warn"
LOG = (
    Line(
        ("shared memory", "/dev/shm/"),
        "(?:shared memory (?:object|segment|file)|/dev/shm/).{0,300}No space left on device",
    ),
    Line("No space left on device", "No space left on device.{0,200}(?:shared memory|/dev/shm/|nccl-)"),
    Line(
        "unable to open shared memory object",
        shows="symptom",
        why="the system's reason is missing; a low limit of open files shows the same",
        unless="No space|Too many|Permission",
    ),
    Line("unable to allocate shared memory", r"unable to allocate shared memory ?\(shm\)"),
    Line("insufficient shared memory (shm)"),
    Line("unable to write to file </torch_"),
    Line("posix_fallocate", "posix_fallocate failed ?: No space left"),
    Line.of_end(Ended(("data loader worker",), signals=(7,))),
    Line.of_end(Ended(signals=(7,)), shows="end"),
    Line("failed to extend /dev/shm/nccl", shows="end"),
    Line(
        "while creating shared memory segment",
        shows="symptom",
        why="NCCL before 2.21 does not print the reason: CUDA may have refused the memory, too",
        unless="Permission denied|No space left|Too many open",
    ),
)
MATTERS = "DataLoaders with workers would run out of it; a job without them runs"
IN_ENGINE = "the engine's workers exchange messages in it, and end with a bus error once it is full"
PREVENTS = "nccl group formed"
LOOKS_AT = ("host.limits.shared_memory",)
MIB = 1 << 20
SMALL = 64 * MIB
"""Default size in a container."""
FULL = 16 * MIB
SEGMENT = 9637888
"""Bytes of one of NCCL's segments, of which each rank makes at least one (34210176 with 2.28.9)."""
REFUSED = r"/dev/shm/nccl.*No space left on device"
ENOUGH = "16g"
ENGINES = ("vLLM", "SGLang")
"""Engines whose workers exchange messages in shared memory. They write to it as they form their groups
(distributed/parallel_state.py, in_the_same_node_as()): on a full one the kernel ends them with SIGBUS."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if small(node)]
    refused = [node for node in bad if gpus.nccl_warned(node, REFUSED)]
    bad = refused or bad
    if not bad:
        return
    yield Finding.about(
        bad,
        f"/dev/shm on {names_of(bad)} {words(bad)}.",
        severity="fail" if refused or any(map(fails, bad)) else "warn",
        matters=IN_ENGINE if any(node.plan.engine in ENGINES for node in bad) else "",
        evidence=(*map(line, bad), *(text for node in refused for text in gpus.nccl_warned(node, REFUSED)[:1])),
        fixes=fixes(bad),
    )


def memory(node: Node) -> SharedMemory | None:
    return node.limits.shared_memory


def small(node: Node) -> bool:
    shm = memory(node)
    if shm is None or shm.size is None or shm.free is None or not shm.writable:
        return False
    return shm.size <= SMALL or shm.free < FULL


def fails(node: Node) -> bool:
    """Return whether NCCL, or an engine's queue, will not find room for the segments of this node's ranks.

    Where its group was just made it did without: GPUs that reach each other by NVLink or PCIe need none."""
    shm, ranks = memory(node), rank_count(node)
    if shm is None or shm.free is None or ranks < 2:
        return False
    if node.plan.engine in ENGINES and shm.free < MIB:
        return True
    return plans_nccl_group(node) and not gpus.nccl_made([node]) and shm.free < ranks * SEGMENT


def words(bad: list[Node]) -> str:
    sizes = [shm.size for node in bad if (shm := memory(node)) and shm.size is not None]
    if all(size > SMALL for size in sizes):
        return "is full"
    return f"is {together(dict.fromkeys(map(amount, sizes)))} large"


def amount(size: int) -> str:
    return f"{size / MIB:.0f} MiB" if size >= MIB or not size else f"{size / 1024:.0f} KiB"


def line(node: Node) -> str:
    shm = memory(node)
    assert shm is not None and shm.size is not None and shm.free is not None
    backend = "with NCCL" if plans_nccl_group(node) else "without NCCL"
    return (
        f"{node.name}: /dev/shm has {amount(shm.size)}, {amount(shm.free)} of it free, for "
        f"{rank_count(node)} ranks {backend}"
    )


def fixes(bad: list[Node]) -> Iterator[Fix]:
    tight = tuple(n.name for n in bad if (shm := memory(n)) and shm.size is not None and shm.size <= SMALL)
    full = tuple(node.name for node in bad if node.name not in tight)
    if tight:
        yield Fix("On a host, enlarge it as root.", tight, commands=(f"mount -o remount,size={ENOUGH} /dev/shm",))
    if full:
        yield Fix("Remove the leftovers of crashed runs, such as /dev/shm/nccl-* and /dev/shm/torch_*.", full)
    text = (
        "In a container: docker run --shm-size=16g (or --ipc=host); in Kubernetes, mount an emptyDir with medium: "
        "Memory at /dev/shm."
    )
    yield Fix.on(bad, text, 2)
