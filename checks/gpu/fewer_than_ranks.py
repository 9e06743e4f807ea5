"""A node has fewer visible GPUs than ranks.

## What you see
`RuntimeError: CUDA error: invalid device ordinal` on the ranks without a device for their LOCAL_RANK. If the script
wraps around, NCCL reports `Duplicate GPU detected`.

Found for real on an NVIDIA H200 (driver 580.159, torch 2.11, NCCL 2.28.9).

## Why it happens
--nproc-per-node is larger than the number of devices, or CUDA_VISIBLE_DEVICES or the scheduler hides some of them. Or
the driver lost one, or MIG is on for one of them: CUDA then sees one part of it, and no other GPU.

## Fix
Start one rank per visible GPU: `torchrun --nproc-per-node gpu`. Or make the hidden GPUs visible:
`unset CUDA_VISIBLE_DEVICES`, `srun --gpus-per-node 8`.

## Confirm with
`python -c "import torch; print(torch.cuda.device_count())"` and `nvidia-smi -L` in the job's
environment.

## When it is harmless
When the ranks do not use the GPU at all (backend gloo on CPU tensors).

## See also
gpu/shared-device
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, gpus, set_launch_fix, together

SEVERITY = "fail"
LOG = (
    Line(
        "Invalid device id",  # torch/cuda/__init__.py, get_device_properties()
        r"^AssertionError: Invalid device id$",
    ),
    Line(
        "device < num_gpus",  # aten/src/ATen/cuda/CUDAContext.cpp
        r"device >= 0 && device < num_gpus.{0,30}INTERNAL ASSERT FAILED",
    ),
    Line("But your machine only has", r"machine only has: ?\[[\d, ]*\]"),
    Line("invalid device ordinal", unless="transport/p2p"),
    Line("exceeds available GPUs", r"local.rank \d+ exceeds available GPUs"),
    Line(
        "number of accelerators available",  # init_process_group(device_id=)
        r"device_id \d+ is out of range",
    ),
)
CONTAINER = "NVIDIA_VISIBLE_DEVICES"
PREVENTS = "nccl group formed"
FOLLOWS = ("environment/backend-not-built", "gpu/mask-mismatch", "gpu/none-visible", "gpu/hardware")


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if has_too_few(node)]
    if not bad:
        return
    counts = together(f"{len(devices(node))} for {ranks(node)} ranks on {node.name}" for node in bad)
    yield Finding.about(
        bad,
        f"The job has more ranks than visible GPUs: {counts}.",
        ranks=(r.rank for n in bad for r in n.facts.ranks if r.rank is not None and r.local_rank >= len(devices(n))),
        evidence=map(evidence, bad),
        fixes=(fix for node in bad for fix in fixes(node)),
    )


def has_too_few(node: Node) -> bool:
    looked = [r for r in node.facts.ranks if r.gpu is not None]
    count = len(devices(node))
    # Without any device, `auto` means a CPU job.
    planned = "nccl" in node.plan.backends(gpus=False) or (count > 0 and "nccl" in node.plan.backends(gpus=True))
    shared = count > 0 and gpus.may_share(node)
    return bool(looked) and planned and count < ranks(node) and not shared


def devices(node: Node) -> set[str]:
    """Return all devices that the node's ranks see.

    torch before 2.4 gives no UUID: ranks that a launcher started one by one may each have another device then."""
    separate = node.plan.started == "rank"
    return {
        d.uuid or f"index {d.index}{f' of rank {r.local_rank}' if separate else ''}"
        for r in node.facts.ranks
        if r.gpu
        for d in r.gpu.visible
    }


def ranks(node: Node) -> int:
    """Return the number of ranks of the node: planned if it was started once per node, else counted."""
    planned = node.plan.nproc_per_node if node.plan.started == "node" else None
    return planned or len(node.facts.ranks)


def evidence(node: Node) -> str:
    first = next(r.gpu for r in node.facts.ranks if r.gpu)
    values = [repr(mask) for mask in masks(node) if mask is not None]
    mask_text = f"CUDA_VISIBLE_DEVICES={together(values)}" if values else "CUDA_VISIBLE_DEVICES is not set"
    why = f"; {first.reason or first.error}" if first.reason or first.error else ""
    source = node.plan.sources.get("nproc_per_node", "default")
    driver = gpus.driver(node)
    listed = sum(1 for device in driver.devices if not device.error)
    lost = f"; the driver answers for {listed} of {driver.on_bus} on the PCI bus" if 0 < listed < driver.on_bus else ""
    given = node.variables.get(CONTAINER, "all")
    if given != "all" and len(driver.files) < driver.on_bus:
        lost += f"; {CONTAINER}={given} in its container"
    cut = gpus.cut_up(node)
    parts = f"; MIG is on for {gpus.devices_text(cut)}: a process sees one part and no whole GPU" if cut else ""
    counts = f"{len(devices(node))} visible, {ranks(node)} ranks (from {source})"
    return f"{node.name}: {counts}; {mask_text}{why}{lost}{parts}"


def masks(node: Node) -> list[str | None]:
    """Return the values of CUDA_VISIBLE_DEVICES of the ranks, each once."""
    return list(dict.fromkeys(rank.gpu.cuda_visible_devices for rank in node.facts.ranks if rank.gpu))


def hidden(node: Node) -> bool:
    """Return whether the driver has a whole device for each rank, and the ranks' masks hide them."""
    whole = [device for device in gpus.driver(node).devices if not device.error]
    return any(masks(node)) and not gpus.cut_up(node) and len(whole) >= ranks(node)


def fixes(node: Node) -> Iterator[Fix]:
    count, cut = len(devices(node)), gpus.cut_up(node)
    if count == 0:
        text = f"Make the GPUs of {node.name} visible (`unset CUDA_VISIBLE_DEVICES`), or use the CPU backend."
        yield Fix.on(node, text, flags={"--backend": "gloo"})
        return
    some_whole = len(cut) < len(gpus.driver(node).devices)
    if cut:
        text = f"Turn MIG off on {gpus.devices_text(cut)} while no process uses it."
        commands = tuple(f"nvidia-smi -i {device.index} -mig 0" for device in cut)
        yield Fix.on(node, text, option=1 if some_whole else 2, commands=commands)
    unlike = hidden(node) and len(masks(node)) > 1
    fewer_first = not unlike and not (cut and some_whole)
    text = f"{'Start' if fewer_first else 'Or start'} {count} ranks on {node.name}, one per visible GPU."
    fewer = set_launch_fix(node, text, "nproc_per_node", count, 1 if fewer_first else 2)
    if not hidden(node):
        yield fewer
        return
    wanted = f"CUDA_VISIBLE_DEVICES on {node.name} to {ranks(node)} of its {len(gpus.driver(node).devices)} GPUs"
    if unlike:
        yield Fix.on(node, f"Set {wanted}, a different one for each rank.")
        yield fewer
    else:
        yield fewer
        yield Fix.on(node, f"Or set {wanted} that no other job uses. Confirm with: `nvidia-smi`.", option=2)
