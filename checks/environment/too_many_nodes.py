"""More nodes joined than the job has.

## What you see
The job runs without the surplus node. That node waits in silence until the job ends. Then it fails with `Failed to
recv, got 0 bytes. Connection was likely closed`, or with an AttributeError (c10d rendezvous).

## Why it happens
--nnodes is older than the list of hosts, or the scheduler gave more nodes than the script expects. Or the launch line
was started twice on one host.

## Fix
Start the job on as many nodes as --nnodes says, or give all nodes the right number: `torchrun --nnodes 3 ...`.

## Confirm with
`scontrol show hostnames $SLURM_JOB_NODELIST | wc -l` prints the number in --nnodes.

## When it is harmless
With an elastic launch (--nnodes MIN:MAX and the c10d rendezvous), nodes beyond MAX are spares on purpose.

## See also
environment/world-size-mismatch, environment/duplicate-node-rank
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, joined_other_run, names_of

SEVERITY = "fail"
LOG = (
    Line(
        # launch_agent() on a node of the redundancy list, where the rendezvous is closed: agent.run() returns nothing
        # then (torch/distributed/elastic/agent/server/api.py, pytorch/pytorch#194710).
        "object has no attribute 'is_failed'",
        told="This node waited for a free place among the job's --nnodes until the job ended",
    ),
    Line(
        "RendezvousConnectionError",
        stack=r" in next_rendezvous\b",
        shows="symptom",
        why="a node 0 that died while this node waited shows the same",
    ),
)
PREVENTS = "plan agreed"
LOOKS_AT = ("everyone",)
FOLLOWS_ANYWHERE = (
    "environment/launcher-mismatch",
    "environment/world-size-mismatch",
    "environment/duplicate-node-rank",
    "environment/invalid-variable",
    "network/port-in-use",
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    zero = cluster.node0
    late = [node for node in cluster.nodes if too_late(node) and not joined_other_run(node)]
    joined = arrived(cluster, zero) if zero is not None else []
    planned = zero.plan.nnodes if zero is not None else late[0].plan.nnodes if late else None
    surplus = len(joined) - (planned or len(joined))
    if planned is None or (surplus <= 0 and not late):
        return
    suspects = undeclared(joined, zero) if surplus > 0 else []
    if surplus > 0 and not suspects and not late:
        return  # they have node ranks, hence two the same: that is said of them
    blamed = list(dict.fromkeys((*suspects, *late)))
    sure, wanted = len(blamed) == max(surplus, 0) + len(late), planned + max(surplus, len(late))
    spare = spares(zero or late[0])
    yield Finding.about(
        blamed,
        f"The job has {planned} node{'s' if planned != 1 else ''}; "
        + (f"{names_of(blamed)} joined in addition." if sure else f"{len(joined)} joined: {names_of(joined)}."),
        title="More nodes joined than the job uses: the surplus nodes are spares" if spare else "",
        severity="info" if spare else "fail",
        ranks=(),
        unsure=not sure,
        evidence=(
            *([f"{zero.name}: --nnodes {planned}; {names_of(joined)} joined"] if zero else []),
            *(f"{node.name}: {node.meeting.late} nodes had joined before it" for node in late),
        ),
        fixes=(
            Fix.on(
                blamed,
                f"Start the job on {planned} nodes only, without {names_of(blamed) if sure else 'one of these'}.",
            ),
            Fix.on(
                dict.fromkeys((*joined, *late)),
                f"Or set --nnodes to {wanted} on every node.",
                option=2,
                flags={"--nnodes": str(wanted)},
            ),
        ),
    )


def spares(node: Node) -> bool:
    """Return whether the job is elastic: nodes beyond MAX wait until a place is free
    (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py, the redundancy list)."""
    plan = node.plan
    return plan.rdzv_backend == "c10d" and plan.min_nodes is not None and plan.min_nodes < (plan.nnodes or 0)


def too_late(node: Node) -> bool:
    """Return whether it found the meeting over, with as many there as were planned."""
    meeting = node.meeting
    return meeting.late is not None and meeting.late >= (node.plan.nnodes or 1 << 30)


def arrived(cluster: Cluster, zero: Node) -> list[Node]:
    """Return the nodes that joined node 0, if they are started once per node; else none."""
    if zero.plan.started != "node":
        return []
    return list(dict.fromkeys(cluster.by_key[key] for key in zero.meeting.arrived if key in cluster.by_key))


def undeclared(joined: list[Node], zero: Node | None) -> list[Node]:
    """Those that may be too many: without a node rank of their own; on a host of several, where others are alone."""
    free = [node for node in joined if node is not zero and node.plan.node_rank is None]
    shared = [node for node in free if any(other is not node and other.host_key == node.host_key for other in joined)]
    return shared if 0 < len(shared) < len(free) else free
