"""A GPU failed.

What you see
------------
Kernel log: `NVRM: Xid`; `uncorrectable ECC error encountered`, `GPU has fallen off the bus`, `Unable to determine the
device handle for GPU`.

Why it happens
--------------
The GPU, its memory, its NVLink or its PCIe link has a fault. Where gpud runs on the host, what it wants a reboot or an
inspection for is told, too.

Fix
---
Take the node out, reset the GPU or reboot, and look at dmesg for the Xid: NVIDIA's list says what it means. Where DCGM
is installed, `dcgmi diag -r 3` tries the hardware of a node that nobody uses. The check does not ask DCGM: what its
health watches tell NVML tells, too, and its diagnosis needs minutes and the whole GPU.

When it is harmless
-------------------
Xid 13, 31, 43, 45 and 137 are errors of the program; 63, 92 and 156 tell of memory that was taken out of use in time.

See also
--------
gpu/driver-library-mismatch
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus, rank_count

SEVERITY = "fail"
MATTERS = "it computes now, and may fail under the job"
PREVENTS = "nccl group formed"
HELPED_BY = ("host.kernel_log",)
RESTART = "other-nodes"
NEXT = ("the Xid in the kernel's log", "dmesg -T | grep -i xid")
ONE_LOST = ("Unable to determine the device handle", "GPU is lost", "GPU requires reset")
"""Of nvidia-smi, which then tells of no other device, either."""
UNKNOWN = "a driver that lost its state, after a suspend or under WSL for example, shows the same"
OFF_THE_BUS = "79"
GPUD_GRAVE = {"REBOOT_SYSTEM", "HARDWARE_INSPECTION"}
LOG = (
    Line(  # NVIDIA's catalogue of Xids: those of which each is a fault by itself
        "Xid (",
        r"NVRM: .{0,20}Xid.{0,60}: (?P<xid>46|48|61|62|64|74|79|94|95|109|110|119|120|123|136|140|143|14[4-9]|150"
        r"|154|155|158)\b",
        unless=r": 1(?:4[4-9]|50), \w+ Nonfatal\b|: 154, .{0,80} to 0x0\b",
    ),
    Line(
        "Xid (",
        r"NVRM: .{0,20}Xid.{0,60}: (?P<xid>63|92|156)\b",
        shows="hint",
        why="the GPU goes on after it: the rows that it gives up are few, and gone with the next reset",
    ),
    Line(
        "Nonfatal",
        r"NVRM: .{0,20}Xid.{0,60}: (?P<xid>14[4-9]|150), \w+ Nonfatal\b",
        shows="symptom",
        why="the NVLink goes on after it, says the driver",
    ),
    Line("uncorrectable ECC error"),
    Line("ncorrectable NVLink error", "[Uu]ncorrectable NVLink error"),
    Line("fallen off the bus"),
    Line("Unable to determine the device handle for"),
    Line("GPU is lost"),
    Line("GPU requires reset"),
    Line(("CUDA error: unknown error", "CUDA driver error: unknown error"), shows="symptom", why=UNKNOWN),
    Line(("Cuda failure", "cuda failure"), "[Cc]uda failure.{0,10}unknown error", shows="symptom", why=UNKNOWN),
    Line(
        "Invalid access of peer GPU memory over nvlink",
        shows="symptom",
        why="a peer's memory that was given back already shows the same",
    ),
    Line(
        "Xid (",
        r"NVRM: .{0,20}Xid.{0,60}: (?P<xid>11|13|31|32|43|45|68|69|137)\b",
        shows="symptom",
        why="this Xid comes of an error of the program as a rule",
    ),
    Line(
        "Remapping Failure Occurred",  # nvidia-smi -q
        "Remapping Failure Occurred {1,40}: Yes",
        shows="symptom",
        why="a row of its memory could not be replaced: whether the job met it, its own log says",
    ),
    Line(
        "GPU Recovery Action",  # nvidia-smi -q
        r"GPU Recovery Action {1,40}: (?:Reset|Reboot|Drain)",
        shows="symptom",
        why="it met a fault that is only gone after that: which and when, its Xid in the kernel's log says",
    ),
    Line(
        "ERR!",
        r"\bERR!.{0,120}\|",  # nvidia-smi's table
        shows="symptom",
        why="a GPU that is lost shows it, and one of which only a sensor does not answer",
    ),
    Line(
        "nvmlDevice",
        r"nvmlDevice\w{1,40}\([^)]{0,60}\) failed: (?:Unknown Error|GPU is lost)",
        shows="symptom",
        why="a container that is not given that GPU may show the same",
    ),
    Line(
        (
            "unspecified launch failure",
            "CUDA error: an illegal instruction",
            "CUDA_ERROR_ILLEGAL_INSTRUCTION: ",  # as XLA and TensorFlow name them
            "CUDA_ERROR_ILLEGAL_ADDRESS: ",
            "CUDA_ERROR_LAUNCH_FAILED: ",
        ),
        shows="symptom",
        why="a kernel that touches what is not there, or was built for something else, shows the same",
    ),
    Line(
        "an illegal memory access was encountered",
        r"terminated with exception: |NCCL WARN|Test (?:CUDA|NCCL) failure",
        shows="symptom",
        why="as a rule it is the program's own access; which one, CUDA_LAUNCH_BLOCKING=1 says",
    ),
    Line(
        "NVRM: ",
        r"NVRM: .{0,60}(?:RmInitAdapter failed|rm_init_adapter failed|Cannot attach gpu)",
        shows="symptom",
        why="a driver that does not fit the GPU, or its firmware, shows the same",
    ),
    Line(
        "Fatal error during GPU init",
        r"amdgpu.{0,60}Fatal error during GPU init",
        shows="symptom",
        why="a driver that does not fit the GPU, or its firmware, shows the same",
    ),
    Line(
        "uncorrectable hardware errors detected",  # amdgpu's
        r"amdgpu.{0,80}uncorrectable hardware errors detected",
    ),
    Line(
        "SXid (",  # an NVSwitch's
        r"SXid \(.{1,40}\): \d{1,6}, Fatal\b",
    ),
    Line("SXid (", r"SXid \(.{1,40}\): \d{1,6}, Non-fatal\b", shows="symptom", why="the NVSwitch goes on after it"),
    Line(  # of ROCm's runtime, which ends the process then
        "HW Exception by GPU node",
        shows="symptom",
        why="a kernel that never ends, or does what it may not, shows the same; the kernel's log has amdgpu's word",
    ),
    Line(
        ("GPU reset begin", " timeout, signaled seq="),
        r"amdgpu.{0,60}(?:GPU reset begin|\bring \S{1,40} timeout)",
        shows="symptom",
        why="a kernel that does not end shows the same",
    ),
    Line(
        ("(Fatal) error", "DPC: containment event"),
        r"AER: (?:Multiple )?Uncorrect(?:ed|able) \(Fatal\) error|DPC: containment event",  # -able from 6.8 on
        shows="symptom",
        why="another device of that PCIe port may be meant",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if not gpus.wants_gpus(node):
            continue
        grave = [*wrong(node), *lost(node)]
        mild = [f"GPU {device.index} {text}" for device in gpus.used_devices(node) if (text := worn(device))]
        mild += [f"the driver reported {text}" for text in reported(node)] if gpus.driver(node).devices else []
        mild += watched(node)
        if not grave and not mild:
            continue
        fatal = any(is_wrong(gpu) for gpu in gpus.used_gpus(node)) or (
            (bool(lost(node)) or gone(node)) and len(gpus.visible_gpus(node)) < rank_count(node)
        )
        yield Finding.about(
            [node],
            f"A GPU of {node.name} has a fault: {'; '.join([*grave, *mild])}.",
            severity="fail" if fatal else "warn",
            evidence=[f"{node.name}: {text}" for text in (*grave, *mild)],
            fixes=[Fix.on(node, "Take the node out of use, and reset the GPU or reboot; look for its Xid in dmesg.")],
        )


def reported(node: Node) -> list[str]:
    """The faults that the driver wrote to the kernel's log of late, each once; not what programs do wrong."""
    lines = [line for line in node.host.kernel_log or () if line.check == "gpu/hardware" and line.shows == "cause"]
    return list(dict.fromkeys(f"Xid {line.values['xid']}" for line in lines if "xid" in line.values))


def gone(node: Node) -> bool:
    """Return whether a GPU fell off the bus (Xid 79), and the driver does not list as many any more as there are
    ranks."""
    listed = sum(1 for device in gpus.driver(node).devices if not device.error)
    return f"Xid {OFF_THE_BUS}" in reported(node) and listed < rank_count(node)


def watched(node: Node) -> list[str]:
    """Return what gpud wants the host rebooted or inspected for.

    What else it finds, each program's errors for example, may be none of the job's."""
    states = gpus.driver(node).gpud or ()
    grave = [one for one in states if one.health == "Unhealthy" and set(one.actions) & GPUD_GRAVE]
    return [f"gpud says of {one.component}: {one.reason} ({', '.join(one.actions)})" for one in grave]


def wrong(node: Node) -> list[str]:
    """Devices on which a product of matrices came out wrong, or found the memory broken."""
    seen = [gpu for gpu in gpus.visible_gpus(node) if is_wrong(gpu)]
    return [f"device {gpu.index}{f': {gpu.error}' if gpu.error else ' computes wrong results'}" for gpu in seen]


def is_wrong(gpu: gpus.Gpu) -> bool:
    return gpu.computed == "wrong" or "uncorrectable" in gpu.error


def lost(node: Node) -> list[str]:
    """Devices that the driver lists and cannot reach: nvidia-smi's "Unable to determine the device handle"."""
    driver = gpus.driver(node)
    named = [driver.error] if not driver.devices and any(words in driver.error for words in ONE_LOST) else []
    return [*named, *(f"GPU {device.index}: {device.error}" for device in gpus.out_of_reach(node))]


def worn(device: gpus.Device) -> str:
    """Return what the driver says of the device's memory and state; empty where nothing is wrong."""
    said = []
    if device.remap_failed:
        said.append("has no memory row left to remap to")
    if device.remap_pending or device.retired_pending:
        said.append("has memory to take out of use, which a reset does")
    if device.sram_worn:
        said.append("had more uncorrected errors of its SRAM than its threshold: to be replaced")
    if device.ecc_uncorrected:
        said.append(f"had {device.ecc_uncorrected} uncorrected memory error(s) since the driver was loaded")
    if device.recovery:
        said.append(f"needs, says the driver: {device.recovery}")
    return " and ".join(said)
