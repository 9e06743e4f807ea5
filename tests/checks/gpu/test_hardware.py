"""gpu/hardware: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import NOT_ASKED, Device, GpudState, KernelLine
from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import of_amd, one, several
from tests.facts_builder import with_host

CHECK = "gpu/hardware"

REMAP = {3: {"remap_pending": True}}
LOST = {3: {"error": "GPU is lost", "uuid": "", "name": ""}}

ECC = "CUDA error: uncorrectable ECC error encountered"

NO_HANDLE = "Unable to determine the device handle for GPU0000:4F:00.0: Unknown Error"
REBOOT, LOOK = ("REBOOT_SYSTEM",), ("CHECK_USER_APP_AND_GPU",)

ROWS = [
    Row("computes wrong results", lambda: one(gpus={3: {"computed": "wrong"}}), ("host0",)),
    Row("no row left", lambda: one(devices={3: {"remap_failed": True}}), ("host0",), severity="warn"),
    Row("a reset is due", lambda: one(devices=REMAP), ("host0",), severity="warn"),
    Row("pages to retire", lambda: one(devices={3: {"retired_pending": True}}), ("host0",), severity="warn"),
    Row("ECC errors", lambda: one(devices={3: {"ecc_uncorrected": 2}}), ("host0",), severity="warn"),
    Row("the driver wants a reset", lambda: one(devices={3: {"recovery": "reset"}}), ("host0",), severity="warn"),
    Row("lost, and not used", lambda: several({"devices": LOST}), ("host0",), severity="warn"),
    Row(
        "out of reach",
        lambda: several({"devices": {3: {**LOST[3], "error": "Unknown Error"}}}),
        ("host0",),
        severity="warn",
    ),
    Row("memory that is broken", lambda: one(gpus={3: {"computed": "", "error": ECC}}), ("host0",)),
    Row(
        "gpud wants a reboot",
        lambda: one(driver={"gpud": (GpudState("error-xid", "Unhealthy", "XID 94", REBOOT),)}),
        ("host0",),
        severity="warn",
    ),
    Row(
        "of one that no rank takes", lambda: several({"gpus": {5: {"computed": "wrong"}}}), ("host0",), severity="warn"
    ),
    Row("SRAM that is worn", lambda: one(devices={3: {"sram_worn": True}}), ("host0",), severity="warn"),
    Row(
        "nvidia-smi stops at it",
        lambda: one(driver={"source": "", "devices": (), "error": NO_HANDLE}),
        ("host0",),
        severity="warn",
    ),
    Row("AMD's, by the kernel", lambda: of_amd(Device(3, ecc_uncorrected=2)), ("host0",), severity="warn"),
    Row("by auto", lambda: one("auto", devices=REMAP), ("host0",), severity="warn"),
]


def xid(number: str, shows: str = "cause", backend: str = "nccl") -> Facts:
    line = KernelLine(CHECK, shows, f"NVRM: Xid (PCI:0000:07:00): {number}, pid=9", 10.0, {"xid": number})
    return tuple(with_host(node, kernel_log=(line,)) for node in one(backend))


def off_the_bus() -> Facts:
    """Seven GPUs are left for eight ranks, and the kernel says what became of the other."""
    (facts,) = xid("79")
    (seven,) = one(count=7, driver={"on_bus": 8})
    return (replace(facts, driver=seven.driver, ranks=seven.ranks),)


ROWS.append(Row("an Xid of late", lambda: xid("79"), ("host0",), severity="warn"))
ROWS.append(Row("off the bus, and a rank has none", off_the_bus, ("host0",)))

LOOK_ALIKES = [
    LookAlike(
        "gpud looks at a program", lambda: one(driver={"gpud": (GpudState("error-xid", "Unhealthy", "XID 31", LOOK),)})
    ),
    LookAlike(
        "gpud, and it harms no job", lambda: one(driver={"gpud": (GpudState("nvlink", "Degraded", "x", REBOOT),)})
    ),
    LookAlike("AMD's, healthy", of_amd),
    LookAlike("another's", lambda: several({"devices": {3: {**LOST[3], "error": "Insufficient Permissions"}}})),
    LookAlike("not asked", lambda: several({"devices": {3: {**LOST[3], "error": NOT_ASKED}}})),
    LookAlike("an Xid of a program's own error", lambda: xid("31", "symptom")),
    LookAlike("an Xid, and a job without GPUs", lambda: xid("79", backend="gloo")),
    LookAlike("a healthy node of eight", one),
    LookAlike("a job without GPUs on it", lambda: one("gloo", devices=REMAP)),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
