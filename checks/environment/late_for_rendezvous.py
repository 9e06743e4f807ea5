"""Nodes came later than torchrun's agents wait for each other.

What you see
------------
`RendezvousTimeoutError` on those that were first; on those that came later silence, then `The connection to the C10d
store has failed`, for who hosted it is gone.

Why it happens
--------------
With the c10d rendezvous each torchrun waits for the others for `join_timeout` seconds (`--rdzv-conf`; 600 where nothing
is said) from its own start on, and then ends. The launch was started later on some nodes: a queue, an image that had to
be pulled, a shell on each of them.

Fix
---
Start all nodes within that time, or leave `join_timeout` out of `--rdzv-conf`, or make it longer, on every node.

When it is harmless
-------------------
Where only the check was started so late, and the job will be started on all nodes at once. An elastic job (`--nnodes
MIN:MAX`) needs MIN of them within that time.

See also
--------
store/nodes-missing, environment/rendezvous-backend-mismatch
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, names_of

SEVERITY = "warn"
MATTERS = "started like this, torchrun on those that were first has given up before the others come"
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
        f"{names_of(late)} came {min(after[node] for node in late):.0f} s and more after {first.name}, whose torchrun "
        f"waits for {patience} s (join_timeout).",
        evidence=(f"{node.name}: started {after[node]:.1f} s after {first.name}" for node in cluster.nodes),
        fixes=(Fix(f"Start all nodes within {patience} s of each other, or give --rdzv-conf a longer join_timeout."),),
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
