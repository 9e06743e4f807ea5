"""More nodes came than the job has.

What you see
------------
The job runs without the one that came too many, which waits in silence until the others are done and then fails, with
`Failed to recv, got 0 bytes. Connection was likely closed` or, with the c10d rendezvous, an AttributeError.

Why it happens
--------------
--nnodes is older than the list of hosts it is started on, the scheduler gave more nodes than the script says, or the
launch was started twice on one host.

Fix
---
Start it on as many nodes as --nnodes says, or give all nodes the number that is meant.

When it is harmless
-------------------
With an elastic launch (--nnodes MIN:MAX and the c10d rendezvous), where nodes beyond MAX are spares on purpose.

See also
--------
environment/world-size-mismatch, environment/duplicate-node-rank
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, joined_other_run, names_of

SEVERITY = "fail"
LOG = (
    Line(
        # launch_agent() on a node of the redundancy list, where the rendezvous is closed: agent.run() returns nothing
        # then (torch/distributed/elastic/agent/server/api.py, pytorch/pytorch#194710).
        "object has no attribute 'is_failed'",
        told="This node waited for a place among the job's --nnodes, and the others are done.",
    ),
    Line(
        "RendezvousConnectionError",
        stack=r" in next_rendezvous\b",
        shows="symptom",
        why="a node 0 that died while this node waited for the others shows the same",
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
    came = arrived(cluster, zero) if zero is not None else []
    planned = zero.plan.nnodes if zero is not None else late[0].plan.nnodes if late else None
    surplus = len(came) - (planned or len(came))
    if planned is None or (surplus <= 0 and not late):
        return
    suspects = undeclared(came, zero) if surplus > 0 else []
    if surplus > 0 and not suspects and not late:
        return  # they have node ranks, hence two the same: that is said of them
    blamed = list(dict.fromkeys((*suspects, *late)))
    sure, wanted = len(blamed) == max(surplus, 0) + len(late), planned + max(surplus, len(late))
    spare = spares(zero or late[0])
    yield Finding.about(
        blamed,
        f"{planned} node{'s' if planned != 1 else ''} were planned, and {names_of(blamed)} "
        f"{'came beside them' if sure else f'are {len(blamed)} for {len(blamed) - surplus} of these places'}.",
        title="More nodes came than the job may have: the others are spares" if spare else "",
        severity="info" if spare else "fail",
        ranks=(),
        unsure=not sure,
        evidence=(
            *([f"{zero.name}: --nnodes {planned}; {names_of(came)} came"] if zero else []),
            *(f"{node.name}: {node.meeting.late} had met when it came" for node in late),
        ),
        fixes=(
            Fix.on(blamed, f"Start it on {planned} nodes: not on {names_of(blamed) if sure else 'one of these'}."),
            Fix.on(
                dict.fromkeys((*came, *late)),
                f"Or make it {wanted} nodes, on every node.",
                option=2,
                flags={"--nnodes": str(wanted)},
            ),
        ),
    )


def spares(node: Node) -> bool:
    """Return whether the job is an elastic one: who comes beyond MAX waits until a place is free
    (torch/distributed/elastic/ rendezvous/dynamic_rendezvous.py, the redundancy list)."""
    plan = node.plan
    return plan.rdzv_backend == "c10d" and plan.min_nodes is not None and plan.min_nodes < (plan.nnodes or 0)


def too_late(node: Node) -> bool:
    """Return whether it found the meeting over, with as many there as were planned."""
    meeting = node.meeting
    return meeting.late is not None and meeting.late >= (node.plan.nnodes or 1 << 30)


def arrived(cluster: Cluster, zero: Node) -> list[Node]:
    """The nodes that came to node 0's meeting, where they are started once per node; else none."""
    if zero.plan.started != "node":
        return []
    return list(dict.fromkeys(cluster.by_key[key] for key in zero.meeting.arrived if key in cluster.by_key))


def undeclared(came: list[Node], zero: Node | None) -> list[Node]:
    """Those that may be too many: without a node rank of their own; on a host of several, where others are alone."""
    free = [node for node in came if node is not zero and node.plan.node_rank is None]
    shared = [node for node in free if any(other is not node and other.host_key == node.host_key for other in came)]
    return shared if 0 < len(shared) < len(free) else free
