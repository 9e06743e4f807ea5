"""The NCCL process group cannot be made.

What you see
------------
`torch.distributed.DistBackendError: NCCL error` in the first collective, or a hang until the watchdog's 10 minutes.

Why it happens
--------------
None of the known causes is in the facts. NCCL's own words come with NCCL_DEBUG=INFO. Where the group of all nodes
cannot be made, those of each node alone and of pairs are tried, which tells the node or the link.

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

from collections.abc import Iterable, Iterator
from dataclasses import replace

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, failed_stage_finding, groups, names_of

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
    Line(
        "nonblocking NCCL communicator",
        "timed out",
        shows="symptom",
        why="a rank that does not come, and one that cannot be reached, show the same",
    ),
)
MATTERS = "the job as planned does not use NCCL; one that does would fail"
PREVENTS = "nccl group formed"
SYMPTOM_OF = "nccl group formed"
FIX_SMALLER = (
    "Run the job's first step on these alone with NCCL_DEBUG=INFO, and read the first WARN line; or leave them out."
)
LINES = 8
WARNINGS = 3
FIX = "Run the job once with NCCL_DEBUG=INFO, and read the first WARN line."


def judge(cluster: Cluster) -> Iterator[Finding]:
    gpus = any(rank.gpu and rank.gpu.visible for node in cluster.nodes for rank in node.facts.ranks)
    planned = any("nccl" in node.plan.backends(gpus=gpus) for node in cluster.nodes)
    severity = "fail" if planned else "warn"
    found = groups.group_search(cluster)
    if found is None or not (found.alone or found.nodes or found.links):
        evidence = (*nccl_said(cluster.nodes), *(found.evidence if found is not None else ()))
        for one in failed_stage_finding(cluster, "nccl", "The NCCL process group cannot be made", FIX, severity):
            yield replace(one, evidence=(*one.evidence, *evidence[:LINES]))
        return
    for nodes, links, summary in accused(found):
        yield Finding.about(
            nodes,
            summary,
            links=[(a.name, b.name) for a, b in links],
            evidence=[*nccl_said(nodes), *about(found, nodes)][:LINES],
            fixes=[Fix.on(nodes, FIX_SMALLER)],
            severity="fail" if planned else "warn",
        )


def accused(found: groups.GroupSearch) -> Iterator[tuple[tuple[Node, ...], tuple[tuple[Node, Node], ...], str]]:
    if found.alone:
        yield found.alone, (), f"The NCCL process group cannot be made on {names_of(found.alone)} alone, either."
    if found.nodes:
        yield found.nodes, (), f"The NCCL process group cannot be made with {names_of(found.nodes)}, and without can."
    for pair in found.links:
        yield pair, (pair,), f"{names_of(pair)} cannot make an NCCL process group together; with others each can."


def nccl_said(nodes: Iterable[Node]) -> list[str]:
    """The first warning of each rank whose group failed, in NCCL's own words."""
    return [
        f"{node.name}: rank {rank.rank}: {rank.nccl.warnings[0]}"
        for node in nodes
        for rank in node.facts.ranks
        if rank.nccl is not None
        and rank.nccl.warnings
        and any(stage.stage == "nccl" and stage.status != "ok" for stage in rank.stages)
    ][:WARNINGS]


def about(found: groups.GroupSearch, nodes: tuple[Node, ...]) -> list[str]:
    """What fails first, then what passes: of these nodes, then of the others."""
    names = [node.name for node in nodes]
    return sorted(found.evidence, key=lambda line: (": failed" not in line, not any(name in line for name in names)))[
        :LINES
    ]
