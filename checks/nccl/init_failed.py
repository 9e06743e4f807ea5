"""The NCCL process group cannot be made.

What you see
------------
`torch.distributed.DistBackendError: NCCL error` in the first collective, or a hang until the watchdog's 10 minutes.

Why it happens
--------------
None of the known causes is in the facts. NCCL's own words come with NCCL_DEBUG=INFO. Where the group of all nodes
cannot be made, those of each node alone and of pairs are tried, which tells the node or the link; of a node whose own
cannot be made, each GPU alone and pairs of them, which tells the GPU, or the two. Of two nodes that fail only together,
pairs of GPUs across them: an adapter, or the switch of one rail, is in the way of some of these and not of others.

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
        ("ncclInternalError", "NCCL internal error", "internal error - please report this issue to the NCCL"),
        shows="symptom",
        why="NCCL_DEBUG=INFO says which check of NCCL failed",
    ),
    Line(("ncclInvalidUsage", "ncclInvalidArgument"), shows="symptom", why="NCCL_DEBUG=INFO says which argument"),
    Line(
        ("NCCL WARN NET/OFI ", "failed to initialize ATL"),  # oneCCL's
        r"NCCL WARN NET/OFI (?:.{1,200}\b(?:RC|rc|[Rr]et(?:urn code)?): ?-?[1-9]|Unexpected |Creating .{1,80}failed)"
        r"|(?:oneCCL.{0,200}|^)failed to initialize ATL",
        shows="symptom",
        why="libfabric tells only which call failed: FI_LOG_LEVEL=warn says why",
    ),
    Line(
        ("HCCL function error", "OPS function error: Hccl", "HCCL error in", "[ERROR] HCCL("),
        shows="symptom",
        why="HCCL tells only which call failed: the logs in ~/ascend/log say why",
    ),
    Line(
        ("EI00", "EE10", "EH99", "EJ00", "EL00", "EZ99"),  # Ascend's CANN, which numbers what it tells
        r"^E[A-Z]\d{4}: ?(?:\[PID: ?\d{1,9}\]|\d{4}-|\w+ \w+ )"
        r"|^\[PID: ?\d{1,9}\] \S{1,40} \w{1,60}\(E[A-Z]\d{4}\): ",
        shows="symptom",
        why="its remedies are for whatever it may be: the logs of all ranks in ~/ascend/log say which it was",
    ),
    Line(
        (": non-zero status: ", ": NULL value ", "nvshmem initialization failed", "NIXL_ERR_"),  # NVSHMEM's and NIXL's
        r"nvshmem\S{0,200}:\d{1,5}: (?:non-zero status: -?[1-9]|NULL value |nvshmem init)|NIXL_ERR_(?!NOT_POSTED)",
        shows="symptom",
        why="it tells only which call failed: NVSHMEM_DEBUG=INFO or UCX_LOG_LEVEL=info say why",
    ),
    Line(
        (".cc:", ".cu:"),
        r"NCCL INFO \S{1,200}\.c[cu]:\d{1,5} -> [1-9]",
        shows="symptom",
        why="it tells which calls of NCCL failed; the NCCL WARN before it says why",
        unless=r"INFO transport\.cc:",  # also where SHARP or NVLS cannot be had and NCCL does without
    ),
    Line(("NCCL error", "NCCL Error", "ncclUnhandled"), shows="symptom", why="the text does not say why"),
    Line(
        ("NCCL WARN", "[FATAL ERROR]: HIP failure"),
        r"NCCL WARN.{0,20}(?:[Cc]uda|HIP) failure|\[FATAL ERROR\]: HIP failure",
        shows="symptom",
        why="NCCL only reports what CUDA told it: what the GPU was made to do before it, and its driver, say why",
    ),
    Line(
        ("No transport found for rank", " has no transport for ", "No algorithm/protocol available for"),
        shows="symptom",
        why="NCCL_DEBUG=INFO says what each rank tried",
    ),
    Line(
        ("nonblocking NCCL communicator", "NCCL timeout when waiting for nonblocking call"),
        "timed out|NCCL timeout",
        shows="symptom",
        why="a rank that does not come, and one that cannot be reached, show the same",
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
        why="NCCL tells only which call failed: with NCCL_DEBUG=INFO it says why",
    ),
    Line(
        "NCCL WARN UDS: ",
        "failed|fails",
        shows="symptom",
        why="ranks of one host that are in network namespaces of their own do not reach each other so",
    ),
    Line(
        "socketFinalizeAccept: wrong type",
        shows="symptom",
        why="another connection than the expected one came: ranks with different versions or settings show it",
    ),
    Line(
        ("local Net device counts across ranks", "local CollNet device counts across ranks"),
        shows="symptom",
        why="which nodes lack adapters, NCCL_DEBUG=INFO says on each",
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
FIX_DEVICE = (
    "Leave this GPU out (CUDA_VISIBLE_DEVICES), or take the node out of the job; reset the GPU, and look for its Xid "
    "in dmesg."
)
FIX_PAIR = (
    "Run the job once with NCCL_P2P_DISABLE=1: where it works then, the GPUs cannot reach each other's memory "
    "(distdoctor explain nccl/p2p-broken)."
)
FIX_RAIL = (
    "Look at the adapters nearest to these GPUs (NCCL_DEBUG=INFO: via NET/IB/number, nvidia-smi topo -m), their cables "
    "and switch; NCCL_IB_HCA=^name leaves one out."
)
OF_TWO = "which of two nodes it is cannot be told: a third that works would tell"
FIX = "Run the job once with NCCL_DEBUG=INFO, and read the first WARN line."


def judge(cluster: Cluster) -> Iterator[Finding]:
    gpus_seen = any(rank.gpu and rank.gpu.visible for node in cluster.nodes for rank in node.facts.ranks)
    planned = any("nccl" in node.plan.backends(gpus=gpus_seen) for node in cluster.nodes)
    found = groups.group_search(cluster)
    devices = list(groups.device_searches(cluster))
    named = [one for one in devices if one.ranks]
    # Where groups of fewer have shown whom it is, what other nodes lack is not why.
    yield from (replace(of_devices(one, found, planned), of_its_own=True) for one in named)
    apart = groups.cross_search(cluster)
    if apart is not None and apart.ranks and not named:
        yield replace(of_ranks(apart, planned), of_its_own=True)
        return
    if found is None or not found.nodes:
        if named:
            return
        tried = (*(found.evidence if found is not None else ()), *(line for one in devices for line in one.evidence))
        undecided = [OF_TWO] if len(cluster.nodes) == 2 and not named else []
        evidence = (*nccl_said(cluster.nodes), *undecided, *tried)
        for one in failed_stage_finding(
            cluster, "nccl", "The NCCL process group cannot be made", FIX, "fail" if planned else "warn"
        ):
            yield replace(one, evidence=(*one.evidence, *evidence[:LINES]))
        return
    told = {one.node for one in named}
    for nodes, links, summary in accused(found.nodes, told):
        more = [line for one in devices if one.node in nodes for line in one.evidence]
        tried_apart = Finding.about(
            nodes,
            summary,
            links=[(a.name, b.name) for a, b in links],
            evidence=in_contrast(nccl_said(nodes), [*about(found, nodes), *more]),
            fixes=[Fix.on(nodes, FIX_SMALLER)],
            severity="fail" if planned else "warn",
        )
        yield replace(tried_apart, of_its_own=True)


def of_devices(found: groups.DeviceSearch, nodes: groups.GroupSearch | None, planned: bool) -> Finding:
    """The GPU, or the two, of one node with which its own group fails; ``nodes``: what groups of nodes say."""
    node, ranks = found.node, found.ranks
    beside = about(nodes, (node,)) if nodes is not None else []
    blamed = ranks.alone or ranks.bad or tuple(dict.fromkeys(rank for pair in ranks.links for rank in pair))
    names = together(gpus.device_of_rank(node, rank) for rank in blamed)
    if len(ranks.alone) == len(node.facts.ranks):
        summary, fix = f"NCCL fails on {node.name} even with each GPU by itself.", FIX
    elif ranks.alone:
        summary, fix = f"NCCL fails on {names} of {node.name} by itself, and on its other GPUs not.", FIX_DEVICE
    elif ranks.bad:
        summary, fix = f"No NCCL group can be made with {names} of {node.name}, and without can.", FIX_DEVICE
    else:
        pairs = [" and ".join(gpus.device_of_rank(node, rank) for rank in pair) for pair in ranks.links]
        summary, fix = f"{together(pairs)} of {node.name} make no NCCL group together; with others each can.", FIX_PAIR
    return Finding.about(
        [node],
        summary,
        ranks=sorted(blamed),
        evidence=in_contrast(nccl_said([node]), [*found.evidence, *beside]),
        fixes=[Fix.on(node, fix)],
        severity="fail" if planned else "warn",
    )


def of_ranks(found: groups.CrossSearch, planned: bool) -> Finding:
    """The GPUs of two nodes that do not come together, where others of the same nodes do."""
    ranks = found.ranks
    named = {rank: f"{gpus.device_of_rank(node, rank)} of {node.name}" for rank, node in found.node_of.items()}
    if ranks.bad:
        blamed = ranks.bad
        summary = f"No NCCL group of two nodes can be made with {together(named[rank] for rank in blamed)}; with their "
        summary += "other GPUs it can."
    else:
        pairs = ranks.links or (ranks.unclear,)
        blamed = tuple(dict.fromkeys(rank for pair in pairs for rank in pair))
        said = together(" and ".join(named[rank] for rank in pair) for pair in pairs)
        summary = f"{said} make no NCCL group together; other GPUs of these nodes do."
    nodes = tuple(dict.fromkeys(found.node_of[rank] for rank in blamed))
    return Finding.about(
        nodes,
        summary,
        ranks=sorted(blamed),
        evidence=in_contrast(nccl_said(nodes), found.evidence),
        fixes=[Fix.on(nodes, FIX_RAIL)],
        severity="fail" if planned else "warn",
    )


def accused(
    found: groups.Accused[Node], told: set[Node]
) -> Iterator[tuple[tuple[Node, ...], tuple[tuple[Node, Node], ...], str]]:
    """Nodes, links and what is wrong with them; but for the nodes of which a GPU is told."""
    alone = tuple(node for node in found.alone if node not in told)
    if alone:
        yield alone, (), f"The NCCL process group cannot be made on {names_of(alone)} alone, either."
    if found.bad:
        yield found.bad, (), f"The NCCL process group cannot be made with {names_of(found.bad)}, and without can."
    for pair in found.links:
        yield pair, (pair,), f"{names_of(pair)} cannot make an NCCL process group together; with others each can."


def in_contrast(said: Sequence[str], tried: Sequence[str]) -> list[str]:
    """NCCL's words, then the groups that failed and those that passed: both, as only both together blame anybody."""
    failed = [line for line in tried if ": failed" in line]
    passed = [line for line in tried if ": failed" not in line]
    room = LINES - len(said)
    return [*said, *failed[: max(room - len(passed), room // 2)], *passed][:LINES]


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
    """Return what groups of nodes say: first those with one of these."""
    names = [node.name for node in nodes]
    return sorted(found.evidence, key=lambda line: not any(name in line for name in names))
