"""Each task sees one GPU, as device 0.

What you see
------------
`invalid device ordinal` on every local rank but 0; NCCL: `transport/p2p.cc ... 101 'invalid device ordinal'`.

Why it happens
--------------
srun --gpus-per-task or --gpu-bind, or a wrapper that sets CUDA_VISIBLE_DEVICES for each rank, hides the other GPUs of
the node from each task. A script that takes cuda:LOCAL_RANK, as most do, then has no such device on any rank but the
first. Which device the script takes the check cannot know: it takes the one that is there itself. Of parts of GPUs
(MIG) a process sees one in any case: of these nothing is said.

Fix
---
--gpus-per-node or --gpu-bind=none; or use device 0 in every task.

When it is harmless
-------------------
Where each task sees one GPU and the script takes device 0, or LOCAL_RANK modulo torch.cuda.device_count().

See also
--------
gpu/fewer-than-ranks, gpu/mask-mismatch
"""

import re
from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, RankFacts, failed_ranks, gpus, names_of

SEVERITY = "fail"
MATTERS = "a script that takes cuda:LOCAL_RANK ends there with `invalid device ordinal`; one that takes device 0 runs"
PREVENTS = "nccl group formed"
NEXT = ("what each task sees", "srun nvidia-smi -L")
P2P = r"transport/p2p\.cc.{0,60}(?:invalid device ordinal|failure 101)"
LOG = (Line("transport/p2p", P2P),)
SHOWN = 2
FIX_LAUNCH = (
    "Let each task see all GPUs of its node: srun with --gpus-per-node and --gpu-bind=none in place of "
    "--gpus-per-task, and no CUDA_VISIBLE_DEVICES of its own."
)
FIX_SCRIPT = (
    "Or take the device that is there, in the script: "
    "torch.cuda.set_device(int(os.environ['LOCAL_RANK']) % torch.cuda.device_count())."
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    beyond = {n: found for n in cluster.nodes if gpus.wants_gpus(n) and (found := without_theirs(n))}
    if not beyond:
        return
    warned = refused(cluster)
    first = min((rank for ranks in beyond.values() for rank in ranks), key=lambda rank: rank.local_rank).local_rank
    yield Finding.about(
        beyond,
        f"The ranks of {names_of(beyond)} see a GPU of their own each, from 0: local rank {first} has no cuda:{first}.",
        ranks=[rank.rank for ranks in beyond.values() for rank in ranks if rank.rank is not None],
        evidence=[*warned[:SHOWN], *(said(node, rank) for node, ranks in beyond.items() for rank in ranks)],
        fixes=[Fix.on(beyond, FIX_LAUNCH), Fix.on(beyond, FIX_SCRIPT, option=2)],
        severity="fail" if warned else "warn",
    )


def refused(cluster: Cluster) -> list[str]:
    """Return what NCCL said of ranks whose group failed as it reached for a GPU that this process does not see."""
    failed = [one for one in failed_ranks(cluster, "nccl") if one.rank.nccl is not None]
    told = [(one, text) for one in failed if one.rank.nccl for text in one.rank.nccl.warnings if re.search(P2P, text)]
    return [f"{one.node.name}: rank {one.rank.rank}: {text}" for one, text in told]


def without_theirs(node: Node) -> list[RankFacts]:
    """The ranks with a GPU each of their own, of another number than their local rank; none where ranks share one, or
    see none, which is told as that, and none of parts of GPUs."""
    looked = [rank for rank in node.facts.ranks if rank.gpu is not None]
    taken = gpus.used_gpus(node)
    if node.plan.started != "rank" or len(taken) < len(looked) or any(" MIG " in gpu.name for gpu in taken):
        return []
    return [rank for rank in looked if rank.gpu and 0 < len(rank.gpu.visible) <= rank.local_rank]


def said(node: Node, rank: RankFacts) -> str:
    mask = rank.gpu.cuda_visible_devices if rank.gpu else None
    count = len(rank.gpu.visible) if rank.gpu else 0
    return f"{node.name}: local rank {rank.local_rank} sees {count} device(s), CUDA_VISIBLE_DEVICES={mask}"
