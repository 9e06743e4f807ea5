"""The NCCL process group cannot be made.

What you see
------------
`torch.distributed.DistBackendError: NCCL error` in the first collective, or a hang until the watchdog's 10 minutes.

Why it happens
--------------
None of the known causes is in the facts. NCCL's own words come with NCCL_DEBUG=INFO.

Fix
---
Run the job once with NCCL_DEBUG=INFO and read the first WARN line.

When it is harmless
-------------------
When the job uses gloo only; the finding is then a warning.

See also
--------
gpu/fewer-than-ranks, gpu/shared-device, mesh/peer-ports-blocked
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Line, failed_stage_finding

SEVERITY = "fail"
LOG = (
    Line(
        ("unhandled system error", "ncclSystemError"),
        shows="symptom",
        why="NCCL says only that something of the system failed: with NCCL_DEBUG=INFO it says what",
    ),
    Line(
        ("unhandled cuda error", "ncclUnhandledCudaError"),
        shows="symptom",
        why="NCCL says only that CUDA failed: with NCCL_DEBUG=INFO it says what",
    ),
    Line(
        ("ncclInternalError", "NCCL internal error"),
        shows="symptom",
        why="NCCL_DEBUG=INFO says which check of NCCL failed",
    ),
    Line(
        ("ncclInvalidUsage", "ncclInvalidArgument"),
        shows="symptom",
        why="NCCL_DEBUG=INFO says which argument",
    ),
    Line(
        "NCCL WARN NET/OFI ",
        r"NCCL WARN NET/OFI .{1,200}\b(?:RC|rc|[Rr]et(?:urn code)?): ?-?[1-9]",
        shows="symptom",
        why="libfabric tells only which call failed: FI_LOG_LEVEL=warn says why",
    ),
    Line(
        ("HCCL function error", "OPS function error: Hccl", "HCCL error in"),
        shows="symptom",
        why="HCCL tells only which call failed: the logs in ~/ascend/log say why",
    ),
    Line(
        ("EI00", "EE10", "EH99", "EJ00", "EL00", "EZ99"),  # Ascend's CANN, which numbers what it tells
        r"^E[A-Z]\d{4}: ?(?:\[PID: ?\d{1,9}\]|\d{4}-|\w+ \w+ )",
        shows="symptom",
        why="its remedies are for whatever it may be: the logs of all ranks in ~/ascend/log say which it was",
    ),
    Line(
        "internal error - please report this issue to the NCCL developers",
        shows="symptom",
        why="NCCL_DEBUG=INFO says which check of NCCL failed",
    ),
    Line(
        ".cc:",
        r"NCCL INFO \S{1,80}\.cc:\d{1,5} -> [1-9]",
        shows="symptom",
        why="it tells which calls of NCCL failed; the NCCL WARN before it says why",
        unless=r"INFO transport\.cc:",  # also where SHARP or NVLS cannot be had and NCCL does without
    ),
    Line(
        "NCCL error",
        "NCCL [Ee]rror",
        shows="symptom",
        why="the text does not say why",
    ),
    Line(
        ("ncclUnhandled", "NCCL Error"),
        shows="symptom",
        why="the text does not say why",
    ),
    Line(
        "NCCL WARN",
        r"NCCL WARN.{0,20}[Cc]uda failure",
        shows="symptom",
        why="NCCL only reports what CUDA told it: what the GPU was made to do before it, and its driver, say why",
    ),
    Line(
        ("No transport found for rank", " has no transport for ", "No algorithm/protocol available for"),
        shows="symptom",
        why="NCCL_DEBUG=INFO says what each rank tried",
    ),
)
MATTERS = "the job as planned does not use NCCL; one that does would fail"
PREVENTS = "nccl group formed"
SYMPTOM_OF = "nccl group formed"
FIX = "Run the job once with NCCL_DEBUG=INFO, and read the first WARN line."


def judge(cluster: Cluster) -> Iterator[Finding]:
    gpus = any(rank.gpu and rank.gpu.visible for node in cluster.nodes for rank in node.facts.ranks)
    planned = any("nccl" in node.plan.backends(gpus=gpus) for node in cluster.nodes)
    severity = "fail" if planned else "warn"
    yield from failed_stage_finding(cluster, "nccl", "The NCCL process group cannot be made", FIX, severity)
