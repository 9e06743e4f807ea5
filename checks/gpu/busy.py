"""A GPU is taken by another process.

What you see
------------
`CUDA error: all CUDA-capable devices are busy or unavailable`.

Why it happens
--------------
Exclusive compute mode, or somebody else's process has the device.

Fix
---
nvidia-smi shows the mode and the processes; nvidia-smi -c DEFAULT, one process per GPU, or another GPU.

When it is harmless
-------------------
Never.

See also
--------
gpu/shared-device, host/leftover-processes
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus

SEVERITY = "fail"
PREVENTS = "nccl group formed"
RESTART = "yes"
LOG = (
    Line("busy or unavailable", r"devices?(?:\(s\))? (?:is/)?are busy or unavailable"),
    Line(  # Gaudi's
        "[Device already acquired]", r"synStatus=\d{1,4} \[Device already acquired\]"
    ),
)
LETS_IN = ("distdoctor", "nvidia-cuda-mps")
"""How those are called that keep no process of the job out: what was asked here, and the server of MPS, which computes
for all who ask it and wants this mode (NVIDIA, Multi-Process Service, "Performance"). The kernel keeps 15 letters."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if not gpus.wants_gpus(node):
            continue
        refusing = [(device, why) for device in gpus.used_device_list(node) if (why := refuses(node, device))]
        words = [gpu.error for gpu in gpus.used_gpus(node) if "busy or unavailable" in gpu.error]
        if not refusing and not words:
            continue
        said = "; ".join(f"{gpus.device_text(device)} {why}" for device, why in refusing)
        yield Finding.about(
            [node],
            f"A GPU of {node.name} takes no further process{': ' + said if said else ''}.",
            evidence=[
                *(f"{node.name}: GPU {d.index}: compute mode {d.compute_mode}" for d, _ in refusing),
                *(f"{node.name}: torch: {text}" for text in dict.fromkeys(words)),
            ],
            fixes=[fix(node, device) for device, _ in refusing]
            or [Fix.on(node, "Look at the mode and the processes of the GPUs (nvidia-smi), and end what holds them.")],
        )


def refuses(node: Node, device: gpus.Device) -> str:
    """Why the device takes no process; empty where it does, as one did that has just computed on it."""
    if gpus.computed_right(node, device):
        return ""
    if device.compute_mode == "prohibited":
        return "is in the mode that lets nobody compute"
    others = [process for process in device.processes if not process.name.startswith(LETS_IN)]
    if device.compute_mode in ("exclusive-process", "exclusive-thread") and others:
        first = others[0]
        who = f"{first.name or 'a process'} (pid {first.pid}{f' of {first.user}' if first.user else ''})"
        return f"lets one process in, which is {who}"
    return ""


def fix(node: Node, device: gpus.Device) -> Fix:
    if device.compute_mode == "prohibited" or not device.processes:
        text = f"Let processes compute on GPU {device.index}."
        return Fix.on(node, text, commands=(f"nvidia-smi -i {device.index} -c DEFAULT",))
    first = device.processes[0]
    return Fix.on(node, f"End process {first.pid}, if it is left over, or leave GPU {device.index} to it.")
