"""A process group other than the default one fails.

## What you see
The job passes init_process_group(), and waits in new_group(), in init_device_mesh() or in the first collective of a
group. These are groups of data-parallel or tensor-parallel ranks, FSDP's shards or an engine's workers. Or one mesh
works, and another with the same ranks does not.

## Why it happens
Each group opens connections of its own. gloo listens on one more port and connects its ranks again. NCCL creates a
communicator with its own sockets, rings and queue pairs.

So a group may be the first to need a link that no ring used. Or it needs one more connection than a firewall allows, or
one more file, port, thread or queue pair than a limit allows.

The check creates the groups of --mesh and --groups in the job's order, and then uses each.

## Fix
Allow TCP between the nodes on all ports, without a limit on the number or the rate of connections: `nft insert rule
inet filter input ip saddr 10.77.0.0/24 accept`.

If NCCL is out of queue pairs or of locked memory: `ulimit -l unlimited`, or `export NCCL_IB_QPS_PER_CONNECTION=1`.

## Confirm with
`distdoctor check --groups 8` on every node creates eight groups of all ranks. If it fails at the same number each
time, a limit is the cause.

## When it is harmless
If the job creates no such group.

## See also
network/connection-limit, host/open-files-limit, environment/mesh-mismatch, collective/failed
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from distdoctor.check_api import (
    Cluster,
    FailedRank,
    Finding,
    Fix,
    Node,
    accused_by_errors,
    device_mesh,
    died_ranks,
    failed_by_themselves,
    failed_ranks,
    names_of,
    planned_rank_count,
    rank_errors_text,
    ranks_of_failed,
    shorten_error,
    some_of,
    stopped_ranks,
    together,
)

SEVERITY = "fail"
PREVENTS = "results right"
SYMPTOM_OF = "results right"
BACKENDS = {"gloo-groups": "gloo", "nccl-groups": "NCCL"}
CREATION = "new_group"
SILENT = "no answer from remote="
FIX_SIZE = "Fix the quoted error. Confirm with: `distdoctor check --groups {}` on every node."
FIX_LINK = (
    "Allow TCP between {} on all ports in their firewalls, the security group and the switch, without a limit of "
    "connections. Confirm with: `distdoctor check --groups 8` on every node."
)
FIX_QUEUES = (
    "Raise the limit of locked memory (`ulimit -l unlimited`), or use fewer queue pairs: "
    "`export NCCL_IB_QPS_PER_CONNECTION=1`. Confirm with: `NCCL_DEBUG=INFO`, the first NCCL WARN line."
)
FIX_NCCL = "Fix the error in the first NCCL WARN line. Confirm with: `NCCL_DEBUG=INFO` and this --mesh."


@dataclass(frozen=True)
class Failure:
    """First group that failed, in the order in which the ranks create and use them."""

    backend: str
    number: int
    group: device_mesh.Group
    during: str
    """``new_group``, ``barrier`` or ``all_reduce``."""
    ranks: list[FailedRank]
    """Its ranks whose errors tell the most."""
    nodes: list[Node]
    """Node of each of the group's ranks, in their order."""

    @property
    def crossing(self) -> list[Node]:
        """Return the nodes of the group, each once."""
        return list(dict.fromkeys(self.nodes))


def judge(cluster: Cluster) -> Iterator[Finding]:
    planned = device_mesh.groups_of(
        cluster.plan.mesh, cluster.plan.groups, planned_rank_count(cluster), cluster.plan.mesh_order
    )
    for stage, backend in BACKENDS.items():
        failure = first_failure(cluster, stage, backend, planned)
        if failure is not None:
            yield finding(cluster, failure, planned)


def first_failure(cluster: Cluster, stage: str, backend: str, planned: list[device_mesh.Group]) -> Failure | None:
    """Return the failure of the group that a rank reached first, of ranks that got no answer before all others."""
    failed = [rank for rank in failed_ranks(cluster, stage) if rank.stage.detail.get("group") in range(len(planned))]
    ended = [rank for rank in failed if SILENT in (rank.stage.error or "")] or failed_by_themselves(failed)
    if not ended:
        return None
    first = min(map(place, ended))
    ranks = [rank for rank in ended if place(rank) == first]
    group, of = planned[first[1]], {rank: node for node in cluster.nodes for rank in node.ranks}
    nodes = [of[rank] for rank in group.ranks if rank in of]
    return Failure(backend, first[1], group, str(ranks[0].stage.detail.get("during")), ranks, nodes)


def place(rank: FailedRank) -> tuple[bool, int]:
    """Return where a rank ended: all groups are created before any is used."""
    return rank.stage.detail.get("during") != CREATION, int(rank.stage.detail["group"])


def finding(cluster: Cluster, failure: Failure, planned: list[device_mesh.Group]) -> Finding:
    ended = failure.ranks
    blamed = accused_by_errors(cluster, ended)
    nodes = [node for node in blamed.nodes if node in failure.crossing] or failure.crossing
    step = "in new_group()" if failure.during == CREATION else f"in its first {failure.during}"
    quoted = next((rank for rank in ended if SILENT in (rank.stage.error or "")), ended[0])
    error = re.sub(r"^ended after .*?: it did not return: ", "", shorten_error(quoted.stage.error or "no text"))
    return Finding(
        summary=f"The {failure.backend} group {name_of(failure)} fails {step}: {error[:160].rstrip('.')}.",
        nodes=tuple(node.name for node in nodes),
        ranks=ranks_of_failed(ended),
        links=tuple((a.name, b.name) for a in blamed.reporters for b in blamed.nodes if a is not b),
        blame=blamed.blame if len(nodes) > 1 else "all",
        evidence=(*distinctions(cluster, failure, planned), *rank_errors_text(ended), *held(ended)),
        fixes=(Fix.on(nodes, advice(failure, error, planned)),),
        severity="fail",
        because_of="ranks together" if stopped_ranks(cluster) or died_ranks(cluster) else None,
    )


def name_of(failure: Failure) -> str:
    """Return the group's dimension, ranks and nodes."""
    of = "of " if not failure.group.name.startswith("group ") else ""
    return f"{of}{failure.group.name} ({ranks_span(failure.group.ranks)} on {names_of(failure.crossing)})"


def ranks_span(ranks: tuple[int, ...]) -> str:
    """Return ``ranks 0-7``, ``ranks 1 and 5``, or some of many."""
    if len(ranks) > 2 and ranks == tuple(range(ranks[0], ranks[0] + len(ranks))):
        return f"ranks {ranks[0]}-{ranks[-1]}"
    return f"rank{'s' if len(ranks) > 1 else ''} {some_of(map(str, ranks))}"


def distinctions(cluster: Cluster, failure: Failure, planned: list[device_mesh.Group]) -> Iterator[str]:
    """Yield what tells this group from those that worked."""
    earlier = planned[: failure.number]
    of = {rank: node for node in cluster.nodes for rank in node.ranks}
    worked = "created" if failure.during == CREATION else "used"
    same = [group for group in earlier if {of.get(rank) for rank in group.ranks} >= set(failure.crossing)]
    crossing = [group for group in earlier if len({of.get(rank) for rank in group.ranks}) > 1]
    count = f"group {failure.number + 1} of {len(planned)}"
    yield f"the default group of all {len(of)} ranks works; {count} is the first to fail"
    if len(failure.crossing) == 1:
        yield f"all its ranks are on {failure.crossing[0].name}"
    elif same:
        yield (
            f"{len(same)} earlier group{'s' if len(same) > 1 else ''} across {names_of(failure.crossing)} could be "
            f"{worked}: a limit on the number of groups, or of their connections, is likely"
        )
    elif not crossing:
        yield "it is the first group after the default one with ranks on several nodes"
    changes = sum(a is not b for a, b in zip(failure.nodes, failure.nodes[1:], strict=False))
    if changes >= len(failure.crossing) > 1:
        order = (f"{rank} {of[rank].name}" for rank in failure.group.ranks if rank in of)
        yield f"its ranks alternate between nodes: {some_of(order)}"


def held(ended: list[FailedRank]) -> Iterator[str]:
    """Yield what a failed rank had open."""
    for rank in ended[:1]:
        files, threads, limit = (
            rank.stage.detail.get("files"),
            rank.stage.detail.get("threads"),
            rank.node.limits.open_files,
        )
        if files and threads:
            of = f" of {limit}" if limit is not None and limit >= 0 else ""
            yield f"rank {rank.rank.rank} had {files}{of} files open and {threads} threads"


def advice(failure: Failure, error: str, planned: list[device_mesh.Group]) -> str:
    if failure.backend == "NCCL":
        return FIX_QUEUES if "ibv_create_qp" in error or "ibv_reg_mr" in error else FIX_NCCL
    if len(failure.crossing) > 1:
        return FIX_LINK.format(together(node.name for node in failure.crossing))
    return FIX_SIZE.format(len(planned))
