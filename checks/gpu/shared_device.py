"""Two ranks of a node use the same GPU.

## What you see
NCCL fails with `ncclInvalidUsage` and `Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3000`.

## Why it happens
All ranks have the same CUDA_VISIBLE_DEVICES. Or the launcher gives each rank a mask with one device, and the script
uses LOCAL_RANK modulo the number of visible devices. Or the ranks have MIG parts of one GPU; NCCL compares PCI bus
addresses, so these count as the same.

## Fix
Use one GPU per rank: `unset CUDA_VISIBLE_DEVICES`, and `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`. Or set
a different CUDA_VISIBLE_DEVICES for each rank.

## Confirm with
`nvidia-smi --query-compute-apps=pid,gpu_uuid --format=csv` while the job runs.

## When it is harmless
With gloo, or if the ranks do not use the GPU, or with NCCL_MULTI_RANK_GPU_ENABLE=1 in NCCL 2.30 and later.

## See also
gpu/fewer-than-ranks
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, RankFacts, gpus, together

SEVERITY = "fail"
PREVENTS = "nccl group formed"
FOLLOWS = ("gpu/fewer-than-ranks",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if "nccl" not in node.plan.backends(gpus=True) or gpus.may_share(node):
            continue
        yield from mig_parts(node)
        for device, ranks in sorted(by_device(node).items()):
            if len(ranks) > 1:
                yield finding(node, device, ranks)


def mig_parts(node: Node) -> Iterator[Finding]:
    """Yield the finding about more ranks with MIG parts than GPUs with MIG; the GPU of each part is unknown."""
    cut = gpus.cut_up(node)
    parts = [gpu for gpu in gpus.used_gpus(node) if " MIG " in gpu.name]
    if 0 < len(cut) < len(parts):
        yield Finding.about(
            [node],
            f"{len(parts)} ranks of {node.name} use MIG parts of {gpus.devices_text(cut)}; NCCL treats parts of one "
            "GPU "
            "as the same GPU.",
            evidence=[f"{node.name}: {gpu.name}, {gpu.uuid}" for gpu in parts],
            fixes=[
                Fix.on(
                    node,
                    "Turn MIG off (`nvidia-smi -mig 0`) and use one whole GPU per rank, or use gloo. "
                    "NCCL 2.30 or later also works with NCCL_MULTI_RANK_GPU_ENABLE=1.",
                )
            ],
        )


def by_device(node: Node) -> dict[str, list[RankFacts]]:
    """Return the ranks on each device, if a script uses LOCAL_RANK modulo its visible devices.

    torch before 2.4 gives no UUID: ranks that a launcher started one by one are then left out, since each may be in a
    cgroup with another device 0 (SLURM's --gpus-per-task).
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
                "Use one GPU per rank: unset CUDA_VISIBLE_DEVICES and use cuda:LOCAL_RANK, or set a different mask for "
                f"each rank (now {together(str(m) for m in masks)}).",
            ),
        ),
    )
