"""A node has fewer visible GPUs than ranks.

What you see
------------
`RuntimeError: CUDA error: invalid device ordinal` on the ranks whose LOCAL_RANK has no device, or, where the script
wraps around, NCCL's `Duplicate GPU detected`.

Found for real on an NVIDIA H200 (driver 580.159, torch 2.11, NCCL 2.28.9).

Why it happens
--------------
--nproc-per-node is larger than the number of devices, CUDA_VISIBLE_DEVICES or the scheduler hides some of them, the
driver lost one, or MIG is on on one of them: CUDA then sees one part of it, and no other GPU.

Fix
---
Start as many ranks as there are visible devices, or make the hidden ones visible.

When it is harmless
-------------------
When the ranks do not use the GPU at all (backend gloo on CPU tensors).

See also
--------
gpu/shared-device
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus, set_launch_fix, together

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
    bad = [node for node in cluster.nodes if short(node)]
    if not bad:
        return
    said = together(f"{len(devices(node))} for {ranks(node)} ranks on {node.name}" for node in bad)
    yield Finding.about(
        bad,
        f"There are fewer visible GPUs than ranks: {said}.",
        ranks=(r.rank for n in bad for r in n.facts.ranks if r.rank is not None and r.local_rank >= len(devices(n))),
        evidence=map(evidence, bad),
        fixes=(one for node in bad for one in fixes(node)),
    )


def short(node: Node) -> bool:
    looked = [r for r in node.facts.ranks if r.gpu is not None]
    count = len(devices(node))
    # Without any device, `auto` is a CPU job.
    planned = "nccl" in node.plan.backends(gpus=False) or (count > 0 and "nccl" in node.plan.backends(gpus=True))
    shared = count > 0 and gpus.may_share(node)
    return bool(looked) and planned and count < ranks(node) and not shared


def devices(node: Node) -> set[str]:
    """The devices that its ranks see, all together. torch before 2.4 gives no UUID: then what ranks see that were
    started by themselves, each perhaps with a mask or a cgroup of its own, may be a device of its own."""
    apart = node.plan.started == "rank"
    return {
        d.uuid or f"index {d.index}{f' of rank {r.local_rank}' if apart else ''}"
        for r in node.facts.ranks
        if r.gpu
        for d in r.gpu.visible
    }


def ranks(node: Node) -> int:
    """Return how many ranks the node has: those seen, or planned where it was started once per node."""
    planned = node.plan.nproc_per_node if node.plan.started == "node" else None
    return planned or len(node.facts.ranks)


def evidence(node: Node) -> str:
    first = next(r.gpu for r in node.facts.ranks if r.gpu)
    values = [repr(mask) for mask in masks(node) if mask is not None]
    shown = f"CUDA_VISIBLE_DEVICES={together(values)}" if values else "CUDA_VISIBLE_DEVICES is not set"
    why = f"; {first.reason or first.error}" if first.reason or first.error else ""
    source = node.plan.sources.get("nproc_per_node", "default")
    driver = gpus.driver(node)
    listed = sum(1 for device in driver.devices if not device.error)
    lost = f"; the driver answers for {listed} of {driver.on_bus} on the PCI bus" if 0 < listed < driver.on_bus else ""
    given = node.variables.get(CONTAINER, "all")
    if given != "all" and len(driver.files) < driver.on_bus:
        lost += f"; {CONTAINER}={given} is what its container was given"
    cut = gpus.cut_up(node)
    parts = f"; MIG is on on {gpus.devices_text(cut)}: a process sees one part, and no whole GPU" if cut else ""
    seen = f"{len(devices(node))} visible, {ranks(node)} ranks (from {source})"
    return f"{node.name}: {seen}; {shown}{why}{lost}{parts}"


def masks(node: Node) -> list[str | None]:
    """Return what the ranks have in CUDA_VISIBLE_DEVICES, each value once."""
    return list(dict.fromkeys(rank.gpu.cuda_visible_devices for rank in node.facts.ranks if rank.gpu))


def hidden(node: Node) -> bool:
    """Return whether the driver has a whole device for each rank, and it is the ranks' masks that hide them."""
    whole = [device for device in gpus.driver(node).devices if not device.error]
    return any(masks(node)) and not gpus.cut_up(node) and len(whole) >= ranks(node)


def fixes(node: Node) -> Iterator[Fix]:
    count, cut = len(devices(node)), gpus.cut_up(node)
    if count == 0:
        text = f"On {node.name} no GPU is visible: make them visible, or check the CPU backend."
        yield Fix.on(node, text, flags={"--backend": "gloo"})
        return
    some_whole = len(cut) < len(gpus.driver(node).devices)
    if cut:
        text = f"Turn MIG off on {gpus.devices_text(cut)}, when nobody uses it."
        commands = tuple(f"nvidia-smi -i {device.index} -mig 0" for device in cut)
        yield Fix.on(node, text, option=1 if some_whole else 2, commands=commands)
    unlike = hidden(node) and len(masks(node)) > 1
    fewer_first = not unlike and not (cut and some_whole)
    text = f"{'Start' if fewer_first else 'Or start'} {count} ranks on {node.name}, one per visible GPU."
    fewer = set_launch_fix(node, text, "nproc_per_node", count, 1 if fewer_first else 2)
    if not hidden(node):
        yield fewer
        return
    named = f"{ranks(node)} of its {len(gpus.driver(node).devices)} GPUs in CUDA_VISIBLE_DEVICES on {node.name}"
    if unlike:
        yield Fix.on(node, f"Name {named}, another one for each rank.")
        yield fewer
    else:
        yield fewer
        yield Fix.on(node, f"Or name {named}, where no other job has them.", option=2)
