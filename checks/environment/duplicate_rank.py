"""Two processes claim the same rank.

## What you see
Usually nothing: the store counts one process too few, and all wait for 30 minutes. Then `Timed out after 1801 seconds
waiting for clients. 1/2 clients joined`. If one host has rank 0 twice, `EADDRINUSE`.

## Why it happens
A script that runs on several nodes sets RANK to a constant or to the local rank. Or the launcher itself was started
once per scheduler task.

## Fix
Give each process its own RANK from 0 to WORLD_SIZE - 1: `export RANK=$SLURM_PROCID` under srun, or start the ranks with
torchrun.

## Confirm with
`srun bash -c 'echo $RANK $SLURM_PROCID'` prints each rank once.

## When it is harmless
Never.

## See also
environment/duplicate-node-rank, environment/world-size-mismatch, store/nodes-missing
"""

from collections.abc import Iterator
from dataclasses import replace

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, live, missing_ranks, together, two_jobs_fixes

SEVERITY = "fail"
NEXT = (
    "the ranks that the launcher gives the processes of each node",
    "env | grep -e RANK -e WORLD_SIZE -e SLURM_PROCID",
)
LOG = (
    Line("has already checked in", "(?:ranks?|Some ranks?).{0,80}has already checked in"),
    Line(
        "roll: rank",
        r"ranks? (?P<ranks>[\d, ]{1,200})(?: and \d+ more)? of \d+ started more than once",
        shows="hint",
        why="a restarted job with ranks that never joined shows the same",
    ),
    Line(
        "more than one node have assigned same rank"  # torch/lib/THD/process_group/General.cpp, until torch 1.0
    ),
)
PREVENTS = "plan agreed"
LOOKS_AT = ("everyone",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    claims: dict[int, list[tuple[Node, int]]] = {}
    for claimant in cluster.slices:
        node = cluster.by_key.get(claimant.key)
        if claimant.plan.started == "rank" and claimant.plan.rank is not None and node is not None:
            claims.setdefault(claimant.plan.rank, []).append((node, claimant.identity.pid))
    missing = missing_ranks(cluster)
    restarted = nodes_counting_from_zero(claims)
    if restarted:
        yield local_ranks(claims, restarted, missing)
    for rank, claimants in sorted(claims.items()):
        if len(claimants) > 1 and not {node for node, _ in claimants} <= {*restarted}:
            yield finding(rank, claimants, missing)


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None:
        return
    store = job.store
    known = store is not None and store.tells_missing and not job.young
    missing = tuple(rank for rank in store.missing if rank not in job.numbers) if store and known else ()
    for rank, holders in job.claims.items():
        claimants = [(claimant.node, claimant.process.pid) for claimant in holders]
        result = finding(rank, claimants, missing)
        if not missing and not (store and (store.restarted or len(store.joined) == job.world)):
            # It is unknown if all others are there.
            result = replace(result, fixes=(fix(result.nodes[-1], rank, missing),))
        yield replace(result, evidence=tuple(live.where_ranks_are(holders)))
    for claimant, other in live.overwritten(job):
        if claimant.number not in job.claims:
            yield claimed_in_store(claimant, other, missing)


def nodes_counting_from_zero(claims: dict[int, list[tuple[Node, int]]]) -> list[Node]:
    """The nodes, where there are several, on each of which several processes have the ranks from 0 on."""
    ranks: dict[Node, list[int]] = {}
    for rank, claimants in claims.items():
        for node, _ in claimants:
            ranks.setdefault(node, []).append(rank)
    counting = [node for node, its in ranks.items() if len(its) > 1 and sorted(its) == list(range(len(its)))]
    return counting if len(counting) > 1 else []


def local_ranks(claims: dict[int, list[tuple[Node, int]]], nodes: list[Node], missing: tuple[int, ...]) -> Finding:
    """Return what is RANK there is what LOCAL_RANK should be."""
    names = [node.name for node in nodes]
    # Where the store is, they may begin with 0.
    rightful = [node.name for node in nodes if node.meeting.hosted]
    blamed = [name for name in names if name not in rightful] if len(rightful) == 1 else names
    ranks = [rank for rank, claimants in sorted(claims.items()) if {node for node, _ in claimants} & {*nodes}]
    text = (
        "Set RANK from SLURM_PROCID or OMPI_COMM_WORLD_RANK, and LOCAL_RANK from SLURM_LOCALID or "
        "OMPI_COMM_WORLD_LOCAL_RANK; or start the ranks with torchrun."
    )
    return Finding.about(
        blamed,
        f"RANK starts at 0 on each of {together(names)}, as LOCAL_RANK does.{lacking(missing)}",
        ranks=tuple(ranks),
        unsure=len(rightful) != 1,
        evidence=(f"{node.name}: {together(claimed_on(node, claims))}" for node in nodes),
        fixes=(Fix(text, tuple(blamed)),),
    )


def claimed_on(node: Node, claims: dict[int, list[tuple[Node, int]]]) -> list[str]:
    return [
        f"pid {pid} has RANK={rank}"
        for rank, holders in sorted(claims.items())
        for claimant, pid in holders
        if claimant is node
    ]


def claimed_in_store(claimant: live.LiveRank, other: live.Member, missing: tuple[int, ...]) -> Finding:
    """The store holds, as the address of this rank, one at which its process does not listen."""
    nodes = tuple(dict.fromkeys(name for name in (claimant.node.name, other.host) if name))
    return Finding.about(
        nodes,
        f"Two processes claim rank {claimant.number}: pid {claimant.process.pid} on {claimant.node.name}, and a "
        "process on "
        f"{other.host or other.address}, which wrote its own address into the store.{lacking(missing)}",
        ranks=(claimant.number or 0,),
        unsure=len(nodes) > 1,
        evidence=(
            f"the store says that rank {claimant.number} listens on {other.address} port {other.port}; here it "
            "listens on "
            + together(
                [f"{s.local} port {s.local_port}" for s in claimant.process.sockets or () if s.state == "LISTEN"]
            ),
            *live.where_ranks_are([claimant]),
        ),
        fixes=(fix(claimant.node.name, claimant.number or 0, missing),),
    )


def lacking(missing: tuple[int, ...]) -> str:
    return f" No process has rank {together(map(str, missing))}." if 0 < len(missing) <= 8 else ""


def finding(rank: int, claimants: list[tuple[Node, int]], missing: tuple[int, ...]) -> Finding:
    nodes = list(dict.fromkeys(node.name for node, _ in claimants))
    blamed = nodes
    if rank == 0 and len(nodes) > 1:
        # The store is where rank 0 is meant to be: the claimant there is right.
        rightful = [n.name for n, _ in claimants if n.meeting.hosted]
        if len(set(rightful)) == 1:
            blamed = [name for name in nodes if name != rightful[0]]
    unsure = len(blamed) > 1
    return Finding.about(
        blamed,
        f"{len(claimants)} processes on {together(nodes)} claim rank {rank}.{lacking(missing)}",
        ranks=(rank,),
        unsure=unsure,
        evidence=(f"{node.name}: pid {pid} has RANK={rank}" for node, pid in claimants),
        fixes=started_twice(claimants) if len(nodes) == 1 and not missing else (fix(blamed[-1], rank, missing),),
    )


def started_twice(claimants: list[tuple[Node, int]]) -> tuple[Fix, ...]:
    """All ranks are there, and one of them twice on one host: no other number is free for it."""
    node, pids = claimants[0][0], together(str(pid) for _, pid in claimants)
    text = f"End all but one of the {len(claimants)} processes of this rank on {node.name} (pids {pids})."
    return Fix.on(node, text), *two_jobs_fixes(node)


def fix(node: str, rank: int, missing: tuple[int, ...]) -> Fix:
    if len(missing) == 1:
        return Fix(
            f"Set RANK to {missing[0]} in one of the processes that have {rank}.",
            (node,),
            env={"RANK": str(missing[0])},
        )
    return Fix("Give each process its own RANK from 0 to WORLD_SIZE - 1, or start the ranks with torchrun.", (node,))
