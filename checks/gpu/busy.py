"""Another process holds a GPU.

## What you see
`CUDA error: all CUDA-capable devices are busy or unavailable`.

## Why it happens
The GPU is in exclusive compute mode and another process uses it, or its mode prohibits computing.

## Fix
Allow several processes: `nvidia-smi -i 0 -c DEFAULT` (as root). Or end the process that holds the GPU (`kill 4711`),
or use another GPU.

## Confirm with
`nvidia-smi --query-gpu=index,compute_mode --format=csv` and
`nvidia-smi --query-compute-apps=pid,name,gpu_uuid --format=csv`.

## When it is harmless
Never.

## See also
gpu/shared-device, host/leftover-processes
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, gpus

SEVERITY = "fail"
PREVENTS = "nccl group formed"
RESTART = "yes"
LOG = (
    Line("busy or unavailable", r"devices?(?:\(s\))? (?:is/)?are busy or unavailable"),
    Line(  # of Gaudi
        "[Device already acquired]", r"synStatus=\d{1,4} \[Device already acquired\]"
    ),
)
LETS_IN = ("distdoctor", "nvidia-cuda-mps")
"""Names of processes that block no rank: distdoctor, and the MPS server, which computes for its clients and needs this
mode (NVIDIA, Multi-Process Service, "Performance"). The kernel keeps 15 letters."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if not gpus.wants_gpus(node):
            continue
        refusing = [(device, why) for device in gpus.used_device_list(node) if (why := refuses(node, device))]
        words = [gpu.error for gpu in gpus.used_gpus(node) if "busy or unavailable" in gpu.error]
        if not refusing and not words:
            continue
        reasons = "; ".join(f"{gpus.device_text(device)} {why}" for device, why in refusing)
        yield Finding.about(
            [node],
            f"A GPU of {node.name} accepts no further process{': ' + reasons if reasons else ''}.",
            evidence=[
                *(f"{node.name}: GPU {d.index}: compute mode {d.compute_mode}" for d, _ in refusing),
                *(f"{node.name}: torch: {text}" for text in dict.fromkeys(words)),
            ],
            fixes=[fix(node, device) for device, _ in refusing]
            or [
                Fix.on(
                    node,
                    "Set the compute mode to DEFAULT (`nvidia-smi -c DEFAULT`), or end the process that holds the "
                    "GPU. Confirm with: `nvidia-smi`.",
                )
            ],
        )


def refuses(node: Node, device: gpus.Device) -> str:
    """Return why the device accepts no process; empty if it does, for example if a rank has just computed on it."""
    if gpus.computed_right(node, device):
        return ""
    if device.compute_mode == "prohibited":
        return 'has compute mode "prohibited"'
    others = [process for process in device.processes if not process.name.startswith(LETS_IN)]
    if device.compute_mode in ("exclusive-process", "exclusive-thread") and others:
        first = others[0]
        who = f"{first.name or 'a process'} (pid {first.pid}{f' of {first.user}' if first.user else ''})"
        return f"is exclusive to {who}"
    return ""


def fix(node: Node, device: gpus.Device) -> Fix:
    if device.compute_mode == "prohibited" or not device.processes:
        text = f"Set the compute mode of GPU {device.index} to DEFAULT."
        return Fix.on(node, text, commands=(f"nvidia-smi -i {device.index} -c DEFAULT",))
    first = device.processes[0]
    return Fix.on(
        node,
        f"End process {first.pid} if it is a leftover (`kill {first.pid}`), or use another GPU than {device.index}.",
    )
