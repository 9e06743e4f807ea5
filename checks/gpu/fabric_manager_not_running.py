"""The NVSwitch fabric is not up.

## What you see
`Error 802: system not yet initialized`, NCCL tests: `Test CUDA failure ... 'system not yet initialized'`.

## Why it happens
A machine with NVSwitch needs nvidia-fabricmanager in the version of its driver. The service is not running, or has
another version.

## Fix
Start it on the host, in the version of the driver: `systemctl enable --now nvidia-fabricmanager`.

## Confirm with
`nvidia-smi -q | grep -A2 Fabric` (State: Completed) and `systemctl status nvidia-fabricmanager`.

## When it is harmless
Never.

## See also
nccl/nvls-fabric-manager
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, gpus

SEVERITY = "fail"
PREVENTS = "nccl group formed"
RESTART = "other-nodes"
NEXT = ("the state of the fabric manager", "systemctl status nvidia-fabricmanager")
LOG = (
    Line("system not yet initialized"),
    Line(
        ": Fabric: ",  # nvidia-smi -q
        r"^nvidia-smi: GPU \S{1,40}: Fabric: (?:State : (?:Not Started|In Progress)|Status : (?!Success|N/A))",
        shows="symptom",
        why="the fabric may have come up later",
    ),
    Line(  # the fabric manager's log
        "fabric manager NVIDIA GPU driver interface version",
        told="The fabric manager and the driver have different versions",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if not gpus.wants_gpus(node):
            continue
        waiting = [d for d in gpus.used_devices(node) if unready(d) and not gpus.computed_right(node, d)]
        errors = [text for text in gpus.gpu_reasons(node) if "system not yet initialized" in text]
        if not waiting and not errors:
            continue
        devices = f" for {gpus.devices_text(waiting)}" if waiting else ""
        states = "; ".join(dict.fromkeys(device.fabric_error or device.fabric for device in waiting))
        yield Finding.about(
            [node],
            f"The NVSwitch fabric of {node.name} is not up{devices}.",
            evidence=[
                *(f"{node.name}: NVML: fabric: {states}" for _ in waiting[:1]),
                *(f"{node.name}: {text}" for text in errors),
            ],
            fixes=[fix(node)],
        )


def unready(device: gpus.Device) -> bool:
    """Return whether the device belongs to a fabric and is not registered with it."""
    return device.fabric in ("not-started", "in-progress") or bool(device.fabric_error)


def fix(node: Node) -> Fix:
    version = f" {gpus.driver(node).module}" if gpus.driver(node).module else ""
    return Fix.on(
        node,
        f"Start NVIDIA's fabric manager{version} on the host (not in a container).",
        commands=("systemctl enable --now nvidia-fabricmanager",),
    )
