"""CUDA_VISIBLE_DEVICES and the launcher disagree.

## What you see
`ValueError: No slot '1' specified on host 'localhost'`;
`RuntimeError: HIP_VISIBLE_DEVICES contains more devices than ROCR_VISIBLE_DEVICES`.

Found for real on an NVIDIA H200 (driver 580.159, torch 2.11, NCCL 2.28.9).

## Why it happens
DeepSpeed's --include or hostfile names devices that CUDA_VISIBLE_DEVICES hides or renumbers. With AMD GPUs,
HIP_VISIBLE_DEVICES counts from 0 among the devices that ROCR_VISIBLE_DEVICES (which SLURM sets) leaves.

## Fix
Use one of the two only: `unset CUDA_VISIBLE_DEVICES` (AMD: `unset HIP_VISIBLE_DEVICES`). Devices behind a mask count
from 0.

## Confirm with
`nvidia-smi -L` and `python -c "import torch; print(torch.cuda.device_count())"`.

## When it is harmless
When CUDA still finds a device for each rank in the mask; the finding is then a warning. On an H100 with
CUDA_VISIBLE_DEVICES=0,1 and one GPU, a job with one rank ran.

## See also
gpu/fewer-than-ranks
"""

import re

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, gpus, rank_count

SEVERITY = "fail"
MATTERS = "each planned rank has a device; a job that needs all named devices would have too few"
PREVENTS = "nccl group formed"
LOG = (
    Line("specified on host", r"No slot ['\x22]?\d+['\x22]? specified on host"),
    Line(  # torch/cuda/__init__.py
        "HIP_VISIBLE_DEVICES contains more devices than ROCR_VISIBLE_DEVICES",
        told="HIP_VISIBLE_DEVICES names more devices than ROCR_VISIBLE_DEVICES leaves",
        fix="Run `unset HIP_VISIBLE_DEVICES`; ROCR_VISIBLE_DEVICES selects the devices.",
    ),
)

DEVICE = r"\d|GPU-|MIG-"
"""Start of an entry that may name a device; CUDA stops reading at any other."""
RUN_ON = r"\d+\s*[^\d\s]|\d+\s+\d"
"""An entry with several numbers; CUDA reads the first."""
NO_FILES = "NoDevFiles"
CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if gpus.wants_gpus(node):
            yield from rocm_masks(node)
        wrong = problem(node) if gpus.wants_gpus(node) else None
        if wrong is not None:
            mask, why = wrong
            yield Finding.about(
                [node],
                f"CUDA_VISIBLE_DEVICES={mask} on {node.name} {why}.",
                severity="warn" if each_rank_has_device(node) else "fail",
                evidence=[evidence(node, mask)],
                fixes=[
                    Fix.on(
                        node,
                        "Unset CUDA_VISIBLE_DEVICES, or name each existing device once (number or UUID). "
                        "Confirm with: `nvidia-smi -L`.",
                        env={"CUDA_VISIBLE_DEVICES": None},
                    )
                ],
            )


def rocm_masks(node: Node) -> Iterator[Finding]:
    """Yield the finding about a HIP_VISIBLE_DEVICES with devices that ROCR_VISIBLE_DEVICES hides."""
    outer, inner = (node.variables.get(name) for name in (ROCR, HIP))
    yield from hidden_from_rocm(node)
    if outer is None or inner is None:
        return
    remaining = len(outer.split(","))
    entries = [entry.strip() for entry in inner.split(",")]
    wrong = [entry for entry in entries if entry.isdecimal() and int(entry) >= remaining]
    looked = gpus.looked_at_gpus(node)
    if wrong and looked and all(len(facts.visible) < len(entries) for facts in looked):
        yield Finding.about(
            [node],
            f"{HIP}={inner} on {node.name} names {wrong[0]}, but {ROCR}={outer} leaves {remaining} device(s), "
            "counted from 0.",
            evidence=[f"{node.name}: torch sees {max(len(facts.visible) for facts in looked)}"],
            fixes=[Fix.on(node, f"Unset {HIP}; {ROCR} selects the devices.", env={HIP: None})],
        )


def hidden_from_rocm(node: Node) -> Iterator[Finding]:
    """Yield the finding about a mask with an invalid first entry, if torch sees no AMD GPU and the job needs some."""
    if gpus.build_for(node) != "ROCm" or gpus.visible_gpus(node) or "nccl" not in node.plan.backends(gpus=False):
        return
    masks = [(name, mask) for name in (ROCR, HIP, CUDA) if (mask := node.variables.get(name)) is not None]
    hiding = next(((name, mask) for name, mask in masks if not re.match(DEVICE, mask.strip())), None)
    if hiding is not None and gpus.looked_at_gpus(node):
        name, mask = hiding
        yield Finding.about(
            [node],
            f"{name}={mask or repr('')} on {node.name} hides every device.",
            evidence=[f"{node.name}: the kernel shows {node.facts.amd.devices if node.facts.amd else 0} AMD GPU(s)"],
            fixes=[
                Fix.on(node, f"Unset {name}, or name existing devices. Confirm with: `rocminfo`.", env={name: None})
            ],
        )


def problem(node: Node) -> tuple[str, str] | None:
    """Return a mask that hides more than intended, and the reason; None without one.

    CUDA reads a mask up to the first entry that is no device, and sees nothing if a device is named twice. The unique
    beginning of a UUID is enough. The driver shows no names of MIG devices.
    """
    for facts in gpus.looked_at_gpus(node) if gpus.driver(node).devices else ():
        mask = facts.cuda_visible_devices
        if mask is not None and (text := mask_problem(node, mask, len(facts.visible))):
            return mask or "''", text
    return None


def mask_problem(node: Node, mask: str, count: int) -> str:
    """Return why torch sees only ``count`` devices with this mask; empty if that is intended."""
    devices = gpus.driver(node).devices
    entries = [part.strip() for part in mask.split(",")]
    if not count and len(set(entries)) < len(entries):
        return "names a device twice, which hides all devices"
    if not count and not re.match(DEVICE, entries[0]):
        why = " (SLURM sets it for a job without --gpus or --gres)" if mask == NO_FILES else ""
        return f"hides every device{why}" if "nccl" in node.plan.backends(gpus=False) else ""
    names = [device.uuid for device in devices if not device.error]
    if count < len(entries) and (text := bad_entry(entries, names, len(devices))):
        return text
    if not count and entries[0].startswith("MIG-") and not any(device.mig for device in devices):
        return f"names {entries[0]}, but MIG is off on all {len(devices)} devices"
    if count >= rank_count(node):
        return ""
    for entry in (part for part in entries if re.match(RUN_ON, part)):
        return f"lacks a comma in {entry!r}, which hides all later devices"
    for entry in (part for part in entries if not re.match(DEVICE, part)):
        return f"has {entry or 'an empty entry'} instead of a device, which hides all later devices"
    return ""


def each_rank_has_device(node: Node) -> bool:
    """Return whether each rank still has a device, from the entries before the bad one."""
    looked = gpus.looked_at_gpus(node)
    return bool(looked) and all(len(facts.visible) >= rank_count(node) for facts in looked)


def bad_entry(entries: list[str], names: list[str], present: int) -> str:
    """Return the problem of the first entry that is no device; empty if each may be one."""
    for entry in entries:
        alike = [name for name in names if name.startswith(entry)]
        if entry.startswith("GPU-") and names and all(names) and len(alike) != 1:
            matches = "which matches several devices" if alike else f"which matches none of its {present} devices"
            return f"names {entry}, {matches}; it and all later devices are hidden"
        if entry.isdecimal() and int(entry) >= present:
            return f"names {entry}, but the devices are 0 to {present - 1}; it and all later devices are hidden"
    return ""


def evidence(node: Node, mask: str) -> str:
    visible = max((len(facts.visible) for facts in gpus.looked_at_gpus(node)), default=0)
    total = len(gpus.driver(node).devices)
    return f"{node.name}: the driver has {total} devices; with the mask {mask} torch sees {visible}"
