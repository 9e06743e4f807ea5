"""Two ranks of a node use the same GPU.

What you see
------------
NCCL fails with `ncclInvalidUsage` and `Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3000`.

Why it happens
--------------
Each rank was given the same CUDA_VISIBLE_DEVICES, or the launcher gave each rank a mask of one device and the script
takes LOCAL_RANK modulo the number of devices it sees. Or the ranks have parts of one GPU (MIG): to NCCL, which asks for
the place on the PCI bus, these are the same.

Fix
---
One device per rank: let torchrun's LOCAL_RANK choose among all devices of the node, or give each rank another mask.

When it is harmless
-------------------
With gloo, or when the ranks do not use the GPU; with NCCL_MULTI_RANK_GPU_ENABLE=1 of NCCL 2.30 and later.

See also
--------
gpu/fewer-than-ranks
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, RankFacts, gpus, together

SEVERITY = "fail"
PREVENTS = "nccl group formed"
FOLLOWS = ("gpu/fewer-than-ranks",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if "nccl" not in node.plan.backends(gpus=True) or gpus.may_share(node):
            continue
        yield from of_parts(node)
        for device, ranks in sorted(by_device(node).items()):
            if len(ranks) > 1:
                yield finding(node, device, ranks)


def of_parts(node: Node) -> Iterator[Finding]:
    """More ranks with a part each than GPUs that are cut up: which part is of which GPU is not known."""
    cut = gpus.cut_up(node)
    parts = [gpu for gpu in gpus.used_gpus(node) if " MIG " in gpu.name]
    if 0 < len(cut) < len(parts):
        yield Finding.about(
            [node],
            f"{len(parts)} ranks of {node.name} have a part (MIG) each of {gpus.devices_text(cut)}, and NCCL takes "
            "parts of one GPU for the same.",
            evidence=[f"{node.name}: {gpu.name}, {gpu.uuid}" for gpu in parts],
            fixes=[
                Fix.on(
                    node,
                    "Turn MIG off, one whole GPU per rank; or use gloo; or NCCL 2.30 or later with "
                    "NCCL_MULTI_RANK_GPU_ENABLE=1.",
                )
            ],
        )


def by_device(node: Node) -> dict[str, list[RankFacts]]:
    """The ranks on each device, by the device that a script takes: LOCAL_RANK modulo the devices it sees.

    torch before 2.4 gives no UUID: then those of ranks that were started by themselves cannot be told apart, as each
    may be in a cgroup with a device 0 of its own (SLURM's --gpus-per-task).
    """
    groups: dict[str, list[RankFacts]] = {}
    for rank in node.facts.ranks:
        if rank.gpu and rank.gpu.visible:
            device = rank.gpu.visible[rank.local_rank % len(rank.gpu.visible)]
            if not device.uuid and node.plan.started == "rank":
                continue
            mask = rank.gpu.cuda_visible_devices
            name = device.uuid or f"device {device.index} of {mask if mask is not None else 'all'}"
            groups.setdefault(name, []).append(rank)
    return groups


def finding(node: Node, device: str, ranks: list[RankFacts]) -> Finding:
    who = together(str(r.rank if r.rank is not None else f"local {r.local_rank}") for r in ranks)
    masks = list(dict.fromkeys(r.gpu.cuda_visible_devices for r in ranks if r.gpu))
    return Finding.about(
        [node],
        f"Ranks {who} on {node.name} use the same GPU, {device}.",
        ranks=(r.rank for r in ranks if r.rank is not None),
        evidence=(
            f"{node.name}: local rank {r.local_rank} sees {len(r.gpu.visible)} device(s), "
            f"CUDA_VISIBLE_DEVICES={r.gpu.cuda_visible_devices}"
            for r in ranks
            if r.gpu
        ),
        fixes=(
            Fix.on(
                node,
                "Give each rank a device of its own: leave CUDA_VISIBLE_DEVICES to the whole node and take "
                f"LOCAL_RANK, or set another mask per rank (now {together(str(m) for m in masks)}).",
            ),
        ),
    )
