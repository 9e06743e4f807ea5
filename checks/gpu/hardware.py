"""A GPU has a hardware fault.

## What you see
Kernel log: `NVRM: Xid`; `uncorrectable ECC error encountered`, `GPU has fallen off the bus`,
`Unable to determine the device handle for GPU`.

## Why it happens
The GPU, its memory, its NVLink or its PCIe link has a fault. If gpud runs on the host, the check also reports its
requests for a reboot or an inspection.

## Fix
Remove the node from the job (`scontrol update nodename=host1 state=drain reason="GPU fault"`), then reset the GPU with
`nvidia-smi --gpu-reset -i 0` or reboot. If the fault returns, replace the GPU.

## Confirm with
`dmesg -T | grep -i xid` (NVIDIA's list explains the number), or `dcgmi diag -r 3` on an idle node. The
check does not use DCGM: its health watches report the same as NVML, and its diagnosis needs minutes and the whole GPU.

## When it is harmless
Xid 13, 31, 43, 45 and 137 are errors of the program. Xid 63, 92 and 156 report memory that was retired in time.

## See also
gpu/driver-library-mismatch
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, gpus, rank_count

SEVERITY = "fail"
MATTERS = "it computes now, and may fail during the job"
PREVENTS = "nccl group formed"
HELPED_BY = ("host.kernel_log",)
RESTART = "other-nodes"
NEXT = ("the Xid in the kernel's log", "dmesg -T | grep -i xid")
ONE_LOST = ("Unable to determine the device handle", "GPU is lost", "GPU requires reset")
"""Errors of nvidia-smi, which then lists no other device, either."""
UNKNOWN = "a driver that lost its state (after a suspend, under WSL) shows the same"
OFF_THE_BUS = "79"
GPUD_GRAVE = {"REBOOT_SYSTEM", "HARDWARE_INSPECTION"}
LOG = (
    Line(  # NVIDIA's list of Xids: each of these is a fault
        "Xid (",
        r"NVRM: .{0,20}Xid.{0,60}: (?P<xid>46|48|61|62|64|74|79|94|95|109|110|119|120|123|136|140|143|14[4-9]|150"
        r"|154|155|158)\b",
        unless=r": 1(?:4[4-9]|50), \w+ Nonfatal\b|: 154, .{0,80} to 0x0\b",
    ),
    Line(
        "Xid (",
        r"NVRM: .{0,20}Xid.{0,60}: (?P<xid>63|92|156)\b",
        shows="hint",
        why="the GPU continues: it retires few rows, at the next reset",
    ),
    Line(
        "Nonfatal",
        r"NVRM: .{0,20}Xid.{0,60}: (?P<xid>14[4-9]|150), \w+ Nonfatal\b",
        shows="symptom",
        why="the NVLink continues, according to the driver",
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
        why="memory that the peer has already freed shows the same",
    ),
    Line(
        "Xid (",
        r"NVRM: .{0,20}Xid.{0,60}: (?P<xid>11|13|31|32|43|45|68|69|137)\b",
        shows="symptom",
        why="this Xid is usually an error of the program",
    ),
    Line(
        "Remapping Failure Occurred",  # nvidia-smi -q
        "Remapping Failure Occurred {1,40}: Yes",
        shows="symptom",
        why="a memory row could not be replaced; only the job's log shows whether it used that row",
    ),
    Line(
        " Uncorrectable",  # nvidia-smi -q
        r"^nvidia-smi: (?P<gpu>GPU \S{1,40}): ECC Errors: Volatile: .{0,40}Uncorrectable.{0,20} : [1-9]",
        shows="symptom",
        why="counted since the driver was loaded; only the Xid in the kernel log shows when",
    ),
    Line(
        "Pending : Yes",
        r"^nvidia-smi: GPU \S{1,40}: (?:Remapped Rows|Retired Pages): Pending",
        shows="hint",
        why="the GPU continues: it retires the row or page at its next reset",
    ),
    Line(
        "GPU Recovery Action",  # nvidia-smi -q
        r"GPU Recovery Action {1,40}: (?:Reset|Reboot|Drain)",
        shows="symptom",
        why="an earlier fault needs that action; its Xid in the kernel log shows which and when",
    ),
    Line(
        "ERR!",
        r"\bERR!.{0,120}\|",  # nvidia-smi's table
        shows="symptom",
        why="a GPU with only a silent sensor shows the same as a lost one",
    ),
    Line(
        "nvmlDevice",
        r"nvmlDevice\w{1,40}\([^)]{0,60}\) failed: (?:Unknown Error|GPU is lost)",
        shows="symptom",
        why="a container without that GPU may show the same",
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
        why="a kernel with a bad access, or built for another GPU, shows the same",
    ),
    Line(
        "an illegal memory access was encountered",
        r"NCCL WARN|Test (?:CUDA|NCCL) failure",
        shows="symptom",
        why="usually the program's own access; CUDA_LAUNCH_BLOCKING=1 shows which",
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
        "uncorrectable hardware errors detected",  # of amdgpu
        r"amdgpu.{0,80}uncorrectable hardware errors detected",
    ),
    Line(
        "SXid (",  # of an NVSwitch
        r"SXid \(.{1,40}\): \d{1,6}, Fatal\b",
    ),
    Line("SXid (", r"SXid \(.{1,40}\): \d{1,6}, Non-fatal\b", shows="symptom", why="the NVSwitch continues"),
    Line(  # of ROCm's runtime, which then ends the process
        "HW Exception by GPU node",
        shows="symptom",
        why="a GPU kernel that never ends or is invalid shows the same; see amdgpu in the kernel log",
    ),
    Line(
        ("GPU reset begin", " timeout, signaled seq="),
        r"amdgpu.{0,60}(?:GPU reset begin|\bring \S{1,40} timeout)",
        shows="symptom",
        why="a GPU kernel that does not end shows the same",
    ),
    Line(
        ("(Fatal) error", "DPC: containment event"),
        r"AER: (?:Multiple )?Uncorrect(?:ed|able) \(Fatal\) error|DPC: containment event",  # -able from 6.8 on
        shows="symptom",
        why="it may concern another device of that PCIe port",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if not gpus.wants_gpus(node):
            continue
        grave = [*computing_wrong(node), *unreachable(node)]
        mild = [f"GPU {device.index} {text}" for device in gpus.used_devices(node) if (text := memory_reports(device))]
        mild += [f"the driver reported {text}" for text in recent_xids(node)] if gpus.driver(node).devices else []
        mild += gpud_requests(node)
        if not grave and not mild:
            continue
        fatal = any(is_wrong(gpu) for gpu in gpus.used_gpus(node)) or (
            (bool(unreachable(node)) or fell_off_bus(node)) and len(gpus.visible_gpus(node)) < rank_count(node)
        )
        yield Finding.about(
            [node],
            f"A GPU of {node.name} has a fault: {'; '.join([*grave, *mild])}.",
            severity="fail" if fatal else "warn",
            evidence=[f"{node.name}: {text}" for text in (*grave, *mild)],
            fixes=[
                Fix.on(
                    node,
                    "Remove the node from the job, then reset the GPU (`nvidia-smi --gpu-reset`) or reboot. Confirm "
                    "with: `dmesg | grep -i xid`.",
                )
            ],
        )


def recent_xids(node: Node) -> list[str]:
    """Return the recent faults in the kernel log, each once; without errors of programs."""
    lines = [line for line in node.host.kernel_log or () if line.check == "gpu/hardware" and line.shows == "cause"]
    return list(dict.fromkeys(f"Xid {line.values['xid']}" for line in lines if "xid" in line.values))


def fell_off_bus(node: Node) -> bool:
    """Return whether a GPU fell off the bus (Xid 79), and the driver lists fewer GPUs than the node has ranks."""
    listed = sum(1 for device in gpus.driver(node).devices if not device.error)
    return f"Xid {OFF_THE_BUS}" in recent_xids(node) and listed < rank_count(node)


def gpud_requests(node: Node) -> list[str]:
    """Return gpud's requests for a reboot or an inspection.

    Its other findings, such as errors of programs, may not concern the job."""
    states = gpus.driver(node).gpud or ()
    grave = [state for state in states if state.health == "Unhealthy" and set(state.actions) & GPUD_GRAVE]
    return [f"gpud on {state.component}: {state.reason} ({', '.join(state.actions)})" for state in grave]


def computing_wrong(node: Node) -> list[str]:
    """Return the devices with a wrong product of matrices, or with a memory error in it."""
    bad = [gpu for gpu in gpus.visible_gpus(node) if is_wrong(gpu)]
    return [f"device {gpu.index}{f': {gpu.error}' if gpu.error else ' computes wrong results'}" for gpu in bad]


def is_wrong(gpu: gpus.Gpu) -> bool:
    return gpu.computed == "wrong" or "uncorrectable" in gpu.error


def unreachable(node: Node) -> list[str]:
    """Return the devices that the driver lists and cannot reach ("Unable to determine the device handle")."""
    driver = gpus.driver(node)
    named = [driver.error] if not driver.devices and any(words in driver.error for words in ONE_LOST) else []
    return [*named, *(f"GPU {device.index}: {device.error}" for device in gpus.out_of_reach(node))]


def memory_reports(device: gpus.Device) -> str:
    """Return the driver's reports on the device's memory and state; empty if all are good."""
    reports = []
    if device.remap_failed:
        reports.append("has no spare memory row left")
    if device.remap_pending or device.retired_pending:
        reports.append("has memory to retire at the next reset")
    if device.sram_worn:
        reports.append("exceeds its threshold of uncorrected SRAM errors (replace it)")
    if device.ecc_uncorrected:
        reports.append(f"had {device.ecc_uncorrected} uncorrected memory error(s) since the driver was loaded")
    if device.recovery:
        reports.append(f"needs this action according to the driver: {device.recovery}")
    return " and ".join(reports)
