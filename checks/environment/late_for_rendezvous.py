"""Nodes joined later than torchrun's agents wait for each other.

## What you see
`RendezvousTimeoutError` on the nodes that started first. The later nodes wait in silence, then `The connection to the
C10d store has failed`, because its host has ended.

## Why it happens
With the c10d rendezvous each torchrun waits `join_timeout` seconds for the others from its own start on, and then ends.
The default is 600 s (`--rdzv-conf`). Some nodes started later: a queue, an image pull, a shell on each of them.

## Fix
Start all nodes within that time, or raise it on every node: `torchrun --rdzv-conf join_timeout=1800 ...`.

## Confirm with
`distdoctor check` on all nodes at once joins them within that time.

## When it is harmless
Only the check started so late, and the job will start on all nodes at once. An elastic job (`--nnodes MIN:MAX`) needs
MIN nodes within that time.

## See also
store/nodes-missing, environment/rendezvous-backend-mismatch
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, names_of

SEVERITY = "warn"
MATTERS = "with these start times, torchrun on the first nodes ends before the others join"
LOOKS_AT = ("mesh.clock_offset", "everyone")
JOIN_TIMEOUT = 600
"""torch/distributed/elastic/rendezvous/dynamic_rendezvous.py, RendezvousTimeout."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    plan = cluster.plan
    if plan.rdzv_backend != "c10d" or plan.started != "node" or (plan.nnodes or 1) < 2:
        return
    starts = {node: at for node in cluster.nodes if (at := started(cluster, node)) is not None}
    needed = plan.min_nodes or plan.nnodes or 1
    if len(starts) < len(cluster.nodes) or len(starts) < needed:
        return
    first, patience = min(starts, key=lambda node: starts[node]), plan.join_timeout or JOIN_TIMEOUT
    after = {node: at - starts[first] for node, at in starts.items()}
    if sorted(after.values())[needed - 1] <= patience + slack(cluster):
        return
    late = [node for node in cluster.nodes if after[node] > patience]
    yield Finding.about(
        late,
        f"{names_of(late)} joined {min(after[node] for node in late):.0f} s or more after {first.name}; torchrun there "
        f"waits only {patience} s (join_timeout).",
        evidence=(f"{node.name}: started {after[node]:.1f} s after {first.name}" for node in cluster.nodes),
        fixes=(Fix(f"Start all nodes within {patience} s of each other, or raise join_timeout in --rdzv-conf."),),
    )


def started(cluster: Cluster, node: Node) -> float | None:
    """Return when the check was started there, by node 0's clock; None where the clocks were not compared."""
    if node.facts.started_at <= 0:
        return None
    if node is cluster.node0:
        return node.facts.started_at
    offset = node.mesh.clock_offset
    return None if offset is None else node.facts.started_at + offset


def slack(cluster: Cluster) -> float:
    """Return how far off the comparison may be."""
    return max((node.mesh.clock_error or 0.0 for node in cluster.nodes), default=0.0)
