"""CUDA_VISIBLE_DEVICES and the launcher disagree.

What you see
------------
`ValueError: No slot '1' specified on host 'localhost'`; `RuntimeError: HIP_VISIBLE_DEVICES contains more devices than
ROCR_VISIBLE_DEVICES`.

Found for real on an NVIDIA H200 (driver 580.159, torch 2.11, NCCL 2.28.9).

Why it happens
--------------
DeepSpeed's --include or hostfile names devices that CUDA_VISIBLE_DEVICES hides or renumbers. With AMD's GPUs,
HIP_VISIBLE_DEVICES counts among those that ROCR_VISIBLE_DEVICES (which SLURM sets) has left, from 0 anew.

Fix
---
Use one of both; after the mask, devices count from 0.

When it is harmless
-------------------
Where what CUDA reads of the mask has a device for each rank that is started: it is a warning then (seen on an H100:
with CUDA_VISIBLE_DEVICES=0,1 and one GPU, a job of one rank ran).

See also
--------
gpu/fewer-than-ranks
"""

import re
from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus, rank_count

SEVERITY = "fail"
MATTERS = "each rank that is started has one; a job that counts on all that are named would have fewer ranks"
PREVENTS = "nccl group formed"
LOG = (
    Line("specified on host", r"No slot ['\x22]?\d+['\x22]? specified on host"),
    Line(  # torch/cuda/__init__.py
        "HIP_VISIBLE_DEVICES contains more devices than ROCR_VISIBLE_DEVICES",
        told="HIP_VISIBLE_DEVICES names more devices than ROCR_VISIBLE_DEVICES leaves",
        fix="Leave the choice to ROCR_VISIBLE_DEVICES alone: unset HIP_VISIBLE_DEVICES.",
    ),
)

DEVICE = r"\d|GPU-|MIG-"
"""How an entry of a mask begins that may name a device; at any other CUDA stops to read."""
RUN_ON = r"\d+\s*[^\d\s]|\d+\s+\d"
"""An entry of several numbers, of which CUDA reads the first."""
NO_FILES = "NoDevFiles"
CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if gpus.wants_gpus(node):
            yield from of_rocm(node)
        wrong = problem(node) if gpus.wants_gpus(node) else None
        if wrong is not None:
            mask, why = wrong
            yield Finding.about(
                [node],
                f"CUDA_VISIBLE_DEVICES={mask} on {node.name} {why}.",
                severity="warn" if enough(node) else "fail",
                evidence=[evidence(node, mask)],
                fixes=[
                    Fix.on(
                        node,
                        "Name devices that are there, each once, by number or UUID (nvidia-smi -L), or leave it unset: "
                        "all of them.",
                        env={"CUDA_VISIBLE_DEVICES": None},
                    )
                ],
            )


def of_rocm(node: Node) -> Iterator[Finding]:
    """A HIP_VISIBLE_DEVICES that names devices beyond those that ROCR_VISIBLE_DEVICES leaves."""
    outer, inner = (node.variables.get(name) for name in (ROCR, HIP))
    yield from hidden_from_rocm(node)
    if outer is None or inner is None:
        return
    left = len(outer.split(","))
    entries = [entry.strip() for entry in inner.split(",")]
    wrong = [entry for entry in entries if entry.isdecimal() and int(entry) >= left]
    looked = gpus.looked_at_gpus(node)
    if wrong and looked and all(len(facts.visible) < len(entries) for facts in looked):
        yield Finding.about(
            [node],
            f"{HIP}={inner} on {node.name} names {wrong[0]}, and {ROCR}={outer} leaves {left} device(s), from 0 anew.",
            evidence=[f"{node.name}: torch sees {max(len(facts.visible) for facts in looked)}"],
            fixes=[Fix.on(node, f"Leave the choice to {ROCR} alone.", env={HIP: None})],
        )


def hidden_from_rocm(node: Node) -> Iterator[Finding]:
    """A mask whose first entry names none of AMD's GPUs, where torch sees none and the job asks for them."""
    if gpus.build_for(node) != "ROCm" or gpus.visible_gpus(node) or "nccl" not in node.plan.backends(gpus=False):
        return
    masks = [(name, mask) for name in (ROCR, HIP, CUDA) if (mask := node.variables.get(name)) is not None]
    hiding = next(((name, mask) for name, mask in masks if not re.match(DEVICE, mask.strip())), None)
    if hiding is not None and gpus.looked_at_gpus(node):
        name, mask = hiding
        yield Finding.about(
            [node],
            f"{name}={mask or repr('')} on {node.name} hides every device.",
            evidence=[f"{node.name}: the kernel shows {node.facts.amd.devices if node.facts.amd else 0} of AMD's"],
            fixes=[Fix.on(node, "Name devices that are there, or leave it unset: all of them.", env={name: None})],
        )


def problem(node: Node) -> tuple[str, str] | None:
    """A mask that hides more than it was meant to, and how.

    CUDA reads it up to the first entry that means no device, and sees nothing where one is named twice. Of a UUID the
    beginning is enough, where one device alone has it. Of MIG's devices the driver shows no names.
    """
    present = len(gpus.driver(node).devices)
    names = [device.uuid for device in gpus.driver(node).devices if not device.error]
    for facts in gpus.looked_at_gpus(node):
        mask = facts.cuda_visible_devices
        if mask is None or not present:
            continue
        entries = [part.strip() for part in mask.split(",")]
        seen = len(facts.visible)
        if not seen and len(set(entries)) < len(entries):
            return mask, "names a device twice, which hides all of them"
        if not seen and not re.match(DEVICE, entries[0]):
            if "nccl" in node.plan.backends(gpus=False):
                why = ": SLURM sets it in a job that asked for no GPU (--gpus, --gres)" if mask == NO_FILES else ""
                return mask or "''", f"hides every device{why}"
            continue
        if seen < len(entries) and (text := unmeant(entries, names, present)):
            return mask, text
        cut = any(device.mig for device in gpus.driver(node).devices)
        if not seen and not cut and entries[0].startswith("MIG-"):
            return mask, f"names {entries[0]}, and MIG is on on none of its {present} devices"
        short = seen < rank_count(node)
        if short and (entry := next((one for one in entries if re.match(RUN_ON, one)), None)) is not None:
            return mask, f"has no comma after the number of {entry!r}: what follows is hidden"
        if short and (entry := next((one for one in entries if not re.match(DEVICE, one)), None)) is not None:
            return mask, f"has {entry or 'nothing'} in the place of a device: what follows is hidden"
    return None


def enough(node: Node) -> bool:
    """Return whether the ranks have a device each all the same, by what comes before the entry that hides the rest."""
    looked = gpus.looked_at_gpus(node)
    return bool(looked) and all(len(facts.visible) >= rank_count(node) for facts in looked)


def unmeant(entries: list[str], names: list[str], present: int) -> str:
    """Return what the first entry that means no device means instead; empty where each may mean one."""
    for entry in entries:
        alike = [name for name in names if name.startswith(entry)]
        if entry.startswith("GPU-") and names and all(names) and len(alike) != 1:
            what = (
                "how several of its devices are called" if alike else f"which none of its {present} devices is called"
            )
            return f"names {entry}, {what}: it and what follows is hidden"
        if entry.isdecimal() and int(entry) >= present:
            return f"names {entry}, and there are {present} devices, from 0: it and what follows is hidden"
    return ""


def evidence(node: Node, mask: str) -> str:
    seen = max((len(facts.visible) for facts in gpus.looked_at_gpus(node)), default=0)
    there = len(gpus.driver(node).devices)
    return f"{node.name}: the driver has {there} devices; through the mask {mask} torch sees {seen}"
