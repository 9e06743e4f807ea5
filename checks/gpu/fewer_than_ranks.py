"""A node has fewer visible GPUs than ranks.

What you see
------------
`RuntimeError: CUDA error: invalid device ordinal` on the ranks whose LOCAL_RANK has no device, or, where the script
wraps around, NCCL's `Duplicate GPU detected`.

Why it happens
--------------
--nproc-per-node is larger than the number of devices, CUDA_VISIBLE_DEVICES or the scheduler hides some of them, or the
driver lost one.

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
        "But your machine only has",
        r"machine only has: ?\[[\d, ]*\]",
    ),
    Line(
        "invalid device ordinal",
        unless="transport/p2p",
    ),
    Line(
        "exceeds available GPUs",
        r"local.rank \d+ exceeds available GPUs",
    ),
    Line(
        "number of accelerators available",  # init_process_group(device_id=)
        r"device_id \d+ is out of range",
    ),
)
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
        fixes=map(fix, bad),
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
    """How many ranks the node has: those seen, or planned where it was started once per node."""
    planned = node.plan.nproc_per_node if node.plan.started == "node" else None
    return planned or len(node.facts.ranks)


def evidence(node: Node) -> str:
    first = next(r.gpu for r in node.facts.ranks if r.gpu)
    mask = first.cuda_visible_devices
    shown = f"CUDA_VISIBLE_DEVICES={mask!r}" if mask is not None else "CUDA_VISIBLE_DEVICES is not set"
    why = f"; {first.reason or first.error}" if first.reason or first.error else ""
    source = node.plan.sources.get("nproc_per_node", "default")
    driver = gpus.driver(node)
    listed = sum(1 for device in driver.devices if not device.error)
    lost = f"; the driver answers for {listed} of {driver.on_bus} on the PCI bus" if 0 < listed < driver.on_bus else ""
    return f"{node.name}: {len(devices(node))} visible, {ranks(node)} ranks (from {source}); {shown}{why}{lost}"


def fix(node: Node) -> Fix:
    count = len(devices(node))
    if count == 0:
        text = f"On {node.name} no GPU is visible: make them visible, or check the CPU backend."
        return Fix.on(node, text, flags={"--backend": "gloo"})
    return set_launch_fix(node, f"Start {count} ranks on {node.name}, one per visible GPU.", "nproc_per_node", count)
