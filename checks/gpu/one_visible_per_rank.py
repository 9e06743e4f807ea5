"""Each task sees one GPU, as device 0.

## What you see
`invalid device ordinal` on every local rank but 0; NCCL: `transport/p2p.cc ... 101 'invalid device ordinal'`.

## Why it happens
srun --gpus-per-task or --gpu-bind, or a wrapper that sets CUDA_VISIBLE_DEVICES per rank, hides the other GPUs of the
node from each task. Most scripts use cuda:LOCAL_RANK, which then exists on local rank 0 only. The check does not know
which device the script uses; it uses the visible one itself. A process sees one MIG part in any case, so the check
ignores MIG.

## Fix
Give each task all GPUs of its node: `srun --gpus-per-node 8 --gpu-bind=none`. Or use device 0 in every task:
`torch.cuda.set_device(0)`.

## Confirm with
`srun --ntasks-per-node 8 nvidia-smi -L` (lists the GPUs of each task).

## When it is harmless
When the script uses device 0, or LOCAL_RANK modulo torch.cuda.device_count().

## See also
gpu/fewer-than-ranks, gpu/mask-mismatch
"""

import re

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, RankFacts, failed_ranks, gpus, names_of

SEVERITY = "fail"
MATTERS = "a script with cuda:LOCAL_RANK fails there with `invalid device ordinal`; one with device 0 runs"
PREVENTS = "nccl group formed"
NEXT = ("the GPUs that each task sees", "srun nvidia-smi -L")
P2P = r"transport/p2p\.cc.{0,60}(?:invalid device ordinal|failure 101)"
LOG = (Line("transport/p2p", P2P),)
SHOWN = 2
FIX_LAUNCH = (
    "Give each task all GPUs of its node: `srun --gpus-per-node 8 --gpu-bind=none` instead of --gpus-per-task, without "
    "CUDA_VISIBLE_DEVICES per task."
)
FIX_SCRIPT = (
    "Or use the visible device in the script: "
    "torch.cuda.set_device(int(os.environ['LOCAL_RANK']) % torch.cuda.device_count())."
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    beyond = {n: ranks for n in cluster.nodes if gpus.wants_gpus(n) and (ranks := ranks_without_device(n))}
    if not beyond:
        return
    warned = nccl_refusals(cluster)
    first = min((rank for ranks in beyond.values() for rank in ranks), key=lambda rank: rank.local_rank).local_rank
    yield Finding.about(
        beyond,
        f"Each rank of {names_of(beyond)} sees only its own GPU, as device 0: local rank {first} has no cuda:{first}.",
        ranks=[rank.rank for ranks in beyond.values() for rank in ranks if rank.rank is not None],
        evidence=[*warned[:SHOWN], *(evidence_line(node, rank) for node, ranks in beyond.items() for rank in ranks)],
        fixes=[Fix.on(beyond, FIX_LAUNCH), Fix.on(beyond, FIX_SCRIPT, option=2)],
        severity="fail" if warned else "warn",
    )


def nccl_refusals(cluster: Cluster) -> list[str]:
    """Return NCCL's warnings from failed ranks about a GPU that their process does not see."""
    failed = [failure for failure in failed_ranks(cluster, "nccl") if failure.rank.nccl is not None]
    return [
        f"{failure.node.name}: rank {failure.rank.rank}: {text}"
        for failure in failed
        for text in (failure.rank.nccl.warnings if failure.rank.nccl else ())
        if re.search(P2P, text)
    ]


def ranks_without_device(node: Node) -> list[RankFacts]:
    """Return the ranks that see only one GPU of their own, with another number than their local rank.

    Empty if ranks share a GPU or see none (other checks), and with MIG."""
    looked = [rank for rank in node.facts.ranks if rank.gpu is not None]
    taken = gpus.used_gpus(node)
    if node.plan.started != "rank" or len(taken) < len(looked) or any(" MIG " in gpu.name for gpu in taken):
        return []
    return [rank for rank in looked if rank.gpu and 0 < len(rank.gpu.visible) <= rank.local_rank]


def evidence_line(node: Node, rank: RankFacts) -> str:
    mask = rank.gpu.cuda_visible_devices if rank.gpu else None
    count = len(rank.gpu.visible) if rank.gpu else 0
    return f"{node.name}: local rank {rank.local_rank} sees {count} device(s), CUDA_VISIBLE_DEVICES={mask}"
