"""NCCL cannot form its process group.

## What you see
`torch.distributed.DistBackendError: NCCL error` in the first collective, or a hang until the watchdog's 10 minutes.

## Why it happens
The facts match no more specific check; NCCL_DEBUG=INFO makes NCCL print the reason. If the group of all nodes fails,
the check tries each node alone and pairs of nodes, which names the node or the link. If a node fails alone, it tries
each GPU alone and pairs of GPUs, which names the GPU or the pair. If two nodes fail only together, it tries pairs of
GPUs across them: a bad adapter or rail switch affects some of these pairs only.

## Fix
Run the job once with `NCCL_DEBUG=INFO`, and fix the error in the first `NCCL WARN` line.

## Confirm with
`NCCL_DEBUG=INFO torchrun ... 2>&1 | grep -m1 "NCCL WARN"`, then `distdoctor explain "THAT LINE"`.

## When it is harmless
When the job uses gloo only; the finding is then a warning.

## See also
gpu/fewer-than-ranks, gpu/shared-device, mesh/peer-ports-blocked
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Line,
    Node,
    Sequence,
    failed_stage_finding,
    gpus,
    groups,
    names_of,
    together,
)

SEVERITY = "fail"
LOG = (
    Line(
        "Requested properties for vNic ",
        told="NCCL asked for a network device that it did not create",
        fix="Name existing adapters in NCCL_IB_HCA (`ibv_devices` lists them), or unset it. If it is right, update "
        "NCCL.",
    ),
    Line(
        ("unhandled system error", "ncclSystemError"),
        shows="symptom",
        why="NCCL reports only that a system call failed; NCCL_DEBUG=INFO shows which",
    ),
    Line(
        ("unhandled cuda error", "ncclUnhandledCudaError"),
        shows="symptom",
        why="NCCL reports only that CUDA failed; NCCL_DEBUG=INFO shows the call",
    ),
    Line(
        ("ncclInternalError", "NCCL internal error", "internal error - please report this issue to the NCCL"),
        shows="symptom",
        why="NCCL_DEBUG=INFO shows which internal check failed",
    ),
    Line(("ncclInvalidUsage", "ncclInvalidArgument"), shows="symptom", why="NCCL_DEBUG=INFO shows which argument"),
    Line(
        ("NCCL WARN NET/OFI ", "failed to initialize ATL"),  # of oneCCL
        r"NCCL WARN NET/OFI (?:.{1,200}\b(?:RC|rc|[Rr]et(?:urn code)?): ?-?[1-9]|Unexpected |Creating .{1,80}failed)"
        r"|(?:oneCCL.{0,200}|^)failed to initialize ATL",
        shows="symptom",
        why="libfabric reports only the failed call; FI_LOG_LEVEL=warn shows why",
    ),
    Line(
        (
            "HCCL function error",
            "OPS function error: Hccl",
            "HCCL error in",
            "[ERROR] HCCL(",
            "DIST call hccl api failed",
        ),
        shows="symptom",
        why="HCCL reports only the failed call; the logs in ~/ascend/log show why",
    ),
    Line(
        ("EI00", "EE10", "EH99", "EJ00", "EL00", "EZ99"),  # numbered errors of Ascend's CANN
        r"^E[A-Z]\d{4}: ?(?:\[PID: ?\d{1,9}\]|\d{4}-|\w+ \w+ )"
        r"|^\[PID: ?\d{1,9}\] \S{1,40} \w{1,60}\(E[A-Z]\d{4}\): ",
        shows="symptom",
        unless="the Notify register times out",  # no set-up, but a collective
        why="the code covers several causes; the logs of all ranks in ~/ascend/log show which",
    ),
    Line(
        # of NVSHMEM and NIXL
        (": non-zero status: ", ": NULL value ", "nvshmem initialization f", ": Unable to initialize any", "NIXL_ERR_"),
        r"nvshmem\S{0,200}:\d{1,5}: (?:non-zero status: -?[1-9]|NULL value |nvshmem init|Unable to initialize any tr)"
        r"|NIXL_ERR_(?!NOT_POSTED)",
        shows="symptom",
        why="it reports only the failed call; NVSHMEM_DEBUG=INFO or UCX_LOG_LEVEL=info show why",
    ),
    Line(
        (".cc:", ".cu:"),
        r"NCCL INFO \S{1,200}\.c[cu]:\d{1,5} -> [1-9]",
        shows="symptom",
        why="it lists the failed calls; the NCCL WARN line before it shows why",
        unless=r"INFO transport\.cc:",  # also if SHARP or NVLS is unavailable and NCCL works without it
    ),
    Line(("NCCL error", "NCCL Error", "ncclUnhandled"), shows="symptom", why="the text does not contain the cause"),
    Line(
        ("NCCL WARN", "[FATAL ERROR]: HIP failure"),
        r"NCCL WARN.{0,20}(?:[Cc]uda|HIP) failure|\[FATAL ERROR\]: HIP failure",
        shows="symptom",
        why="NCCL only forwards a CUDA error; earlier GPU work or the driver is the cause",
    ),
    Line(
        ("No transport found for rank", " has no transport for ", "No algorithm/protocol available for"),
        shows="symptom",
        why="NCCL_DEBUG=INFO shows what each rank tried",
    ),
    Line(
        ("nonblocking NCCL communicator", "NCCL timeout when waiting for nonblocking call"),
        "timed out|NCCL timeout",
        shows="symptom",
        why="a missing rank and an unreachable rank show the same",
    ),
    Line(
        (
            "NCCL AllReduce failed",
            "NCCL AllGather failed",
            "NCCL ReduceScatter failed",
            "NCCL Broadcast failed",
            "NCCL AllToAll failed",
            "NCCL Barrier failed",
            "NCCL Send failed",
            "NCCL Recv failed",
            "NCCL GroupEnd failed",
            "NCCL commInit",
        ),
        shows="symptom",
        why="NCCL reports only the failed call; NCCL_DEBUG=INFO shows why",
    ),
    Line(
        "NCCL WARN UDS: ",
        "failed|fails",
        shows="symptom",
        why="ranks of one host in separate network namespaces cannot use it",
    ),
    Line(
        "socketFinalizeAccept: wrong type",
        shows="symptom",
        why="ranks with different versions or settings show the same",
    ),
    Line(
        ("local Net device counts across ranks", "local CollNet device counts across ranks"),
        shows="symptom",
        why="NCCL_DEBUG=INFO shows on each node which adapters it lacks",
    ),
)
MATTERS = "the planned job does not use NCCL; a job that does would fail"
PREVENTS = "nccl group formed"
SYMPTOM_OF = "nccl group formed"
FIX_SMALLER = (
    "Remove these nodes from the job, or fix the first NCCL WARN line. "
    "Confirm with: a run on these nodes alone with `NCCL_DEBUG=INFO`."
)
LINES = 8
WARNINGS = 3
FIX_DEVICE = (
    "Exclude this GPU (CUDA_VISIBLE_DEVICES) or remove the node, then reset it: `nvidia-smi --gpu-reset -i N`. "
    "Confirm with: `dmesg | grep -i xid`."
)
FIX_PAIR = (
    "Run the job with `NCCL_P2P_DISABLE=1`; if it then works, the GPUs cannot access each other's memory. "
    "Confirm with: `distdoctor explain nccl/p2p-broken`."
)
FIX_RAIL = (
    "Exclude the adapter nearest to these GPUs (`export NCCL_IB_HCA=^mlx5_3`), then replace its cable or switch port. "
    "Confirm with: `nvidia-smi topo -m`, `ibstat`."
)
OF_TWO = "two nodes cannot show which of them fails; a third, working node can"
FIX = "Run the job once with `NCCL_DEBUG=INFO`, and fix the error in the first NCCL WARN line."


def judge(cluster: Cluster) -> Iterator[Finding]:
    gpus_seen = any(rank.gpu and rank.gpu.visible for node in cluster.nodes for rank in node.facts.ranks)
    planned = any("nccl" in node.plan.backends(gpus=gpus_seen) for node in cluster.nodes)
    result = groups.group_search(cluster)
    devices = list(groups.device_searches(cluster))
    named = [search for search in devices if search.ranks]
    # Smaller groups have named the culprit, so what other nodes lack is not the cause.
    yield from (replace(device_finding(search, result, planned), of_its_own=True) for search in named)
    crossing = groups.cross_search(cluster)
    if crossing is not None and crossing.ranks and not named:
        yield replace(cross_finding(crossing, planned), of_its_own=True)
        return
    if result is None or not result.nodes:
        if named:
            return
        tried = (
            *(result.evidence if result is not None else ()),
            *(line for search in devices for line in search.evidence),
        )
        undecided = [OF_TWO] if len(cluster.nodes) == 2 and not named else []
        evidence = (*nccl_warnings(cluster.nodes), *undecided, *tried)
        for finding in failed_stage_finding(
            cluster, "nccl", "NCCL cannot form its process group", FIX, "fail" if planned else "warn"
        ):
            yield replace(finding, evidence=(*finding.evidence, *evidence[:LINES]))
        return
    reported = {search.node for search in named}
    for nodes, links, summary in accused(result.nodes, reported):
        more = [line for search in devices if search.node in nodes for line in search.evidence]
        finding_of_groups = Finding.about(
            nodes,
            summary,
            links=[(a.name, b.name) for a, b in links],
            evidence=in_contrast(nccl_warnings(nodes), [*about(result, nodes), *more]),
            fixes=[Fix.on(nodes, FIX_SMALLER)],
            severity="fail" if planned else "warn",
        )
        yield replace(finding_of_groups, of_its_own=True)


def device_finding(result: groups.DeviceSearch, nodes: groups.GroupSearch | None, planned: bool) -> Finding:
    """Return the finding about the GPU, or pair, that breaks a node's own group; ``nodes``: results of node groups."""
    node, ranks = result.node, result.ranks
    node_groups = about(nodes, (node,)) if nodes is not None else []
    blamed = ranks.alone or ranks.bad or tuple(dict.fromkeys(rank for pair in ranks.links for rank in pair))
    names = together(gpus.device_of_rank(node, rank) for rank in blamed)
    if len(ranks.alone) == len(node.facts.ranks):
        summary, fix = f"NCCL fails on {node.name} even with each GPU alone.", FIX
    elif ranks.alone:
        summary, fix = f"NCCL fails on {names} of {node.name} alone; its other GPUs work.", FIX_DEVICE
    elif ranks.bad:
        summary, fix = f"NCCL forms no group with {names} of {node.name}; groups without it work.", FIX_DEVICE
    else:
        pairs = [" and ".join(gpus.device_of_rank(node, rank) for rank in pair) for pair in ranks.links]
        summary, fix = (
            f"{together(pairs)} of {node.name} form no NCCL group together; each works with other GPUs.",
            FIX_PAIR,
        )
    return Finding.about(
        [node],
        summary,
        ranks=sorted(blamed),
        evidence=in_contrast(nccl_warnings([node]), [*result.evidence, *node_groups]),
        fixes=[Fix.on(node, fix)],
        severity="fail" if planned else "warn",
    )


def cross_finding(result: groups.CrossSearch, planned: bool) -> Finding:
    """Return the finding about GPUs of two nodes that form no group, where other GPUs of these nodes do."""
    ranks = result.ranks
    named = {rank: f"{gpus.device_of_rank(node, rank)} of {node.name}" for rank, node in result.node_of.items()}
    if ranks.bad:
        blamed = ranks.bad
        summary = f"NCCL forms no group across nodes with {together(named[rank] for rank in blamed)}; "
        summary += "groups with their other GPUs work."
    else:
        pairs = ranks.links or (ranks.unclear,)
        blamed = tuple(dict.fromkeys(rank for pair in pairs for rank in pair))
        text = together(" and ".join(named[rank] for rank in pair) for pair in pairs)
        summary = f"{text} form no NCCL group together; other GPUs of these nodes do."
    nodes = tuple(dict.fromkeys(result.node_of[rank] for rank in blamed))
    return Finding.about(
        nodes,
        summary,
        ranks=sorted(blamed),
        evidence=in_contrast(nccl_warnings(nodes), result.evidence),
        fixes=[Fix.on(nodes, FIX_RAIL)],
        severity="fail" if planned else "warn",
    )


def accused(
    result: groups.AccusedMembers[Node], reported: set[Node]
) -> Iterator[tuple[tuple[Node, ...], tuple[tuple[Node, Node], ...], str]]:
    """Yield nodes, links and summaries, except for the nodes with a finding about a GPU."""
    alone = tuple(node for node in result.alone if node not in reported)
    if alone:
        yield alone, (), f"NCCL forms no process group on {names_of(alone)} alone, either."
    if result.bad:
        yield result.bad, (), f"NCCL forms no process group with {names_of(result.bad)}; groups without it work."
    for pair in result.links:
        yield pair, (pair,), f"{names_of(pair)} form no NCCL process group together; each works with other nodes."


def in_contrast(warnings: Sequence[str], tried: Sequence[str]) -> list[str]:
    """Return NCCL's warnings, then failed and passed groups: only both together show the culprit."""
    failed = [line for line in tried if ": failed" in line]
    passed = [line for line in tried if ": failed" not in line]
    room = LINES - len(warnings)
    return [*warnings, *failed[: max(room - len(passed), room // 2)], *passed][:LINES]


def nccl_warnings(nodes: Iterable[Node]) -> list[str]:
    """Return the first NCCL warning of each rank with a failed group."""
    return [
        f"{node.name}: rank {rank.rank}: {rank.nccl.warnings[0]}"
        for node in nodes
        for rank in node.facts.ranks
        if rank.nccl is not None
        and rank.nccl.warnings
        and any(stage.stage == "nccl" and stage.status != "ok" for stage in rank.stages)
    ][:WARNINGS]


def about(result: groups.GroupSearch, nodes: tuple[Node, ...]) -> list[str]:
    """Return the results of node groups: first the groups with one of ``nodes``."""
    names = [node.name for node in nodes]
    return sorted(result.evidence, key=lambda line: not any(name in line for name in names))
