"""Each task sees one GPU, as device 0.

What you see
------------
`invalid device ordinal` on every local rank but 0; NCCL: `transport/p2p.cc ... 101 'invalid device ordinal'`.

Why it happens
--------------
srun --gpus-per-task or --gpu-bind hides the other GPUs of the node from each task, and a script that takes
cuda:LOCAL_RANK asks for one that its task does not see. The check itself takes device 0 there, and cannot know which
one the script takes.

Fix
---
--gpus-per-node or --gpu-bind=none; or use device 0 in every task.

When it is harmless
-------------------
Where the script takes device 0, or LOCAL_RANK modulo torch.cuda.device_count().

See also
--------
gpu/fewer-than-ranks, gpu/mask-mismatch
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus, names_of

SEVERITY = "fail"
MATTERS = "a script that takes cuda:LOCAL_RANK fails with 'invalid device ordinal'; one that takes device 0 runs"
PREVENTS = "nccl group formed"
FOLLOWS = ("gpu/shared-device",)
NEXT = (
    "what each task sees",
    "srun nvidia-smi -L",
)
LOG = (
    Line(
        "transport/p2p",
        r"transport/p2p\.cc.{0,60}(?:invalid device ordinal|failure 101)",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    found = [node for node in cluster.nodes if one_each(node)]
    if found:
        yield Finding.about(
            found,
            f"Each rank of {names_of(found)} sees one GPU, as device 0, whatever its LOCAL_RANK.",
            severity="warn",
            evidence=(evidence(node) for node in found),
            fixes=[
                Fix.on(found, "Let each task see all GPUs of its node: srun --gpus-per-node and --gpu-bind=none."),
                Fix.on(found, "Or take device 0 in every rank: torch.cuda.set_device(0).", option=2),
            ],
        )


def one_each(node: Node) -> bool:
    """Whether ranks that were started by themselves see one device each, and each another."""
    looked = gpus.looked_at_gpus(node)
    seen = [facts.visible[0].uuid for facts in looked if len(facts.visible) == 1]
    apart = len(seen) == len(looked) > 1 and all(seen) and len(set(seen)) == len(seen)
    return apart and node.plan.started == "rank" and gpus.wants_gpus(node)


def evidence(node: Node) -> str:
    each = (
        f"LOCAL_RANK {rank.local_rank}: {rank.gpu.visible[0].uuid}"
        for rank in node.facts.ranks
        if rank.gpu is not None and rank.gpu.visible
    )
    return f"{node.name}: {', '.join(each)}"
