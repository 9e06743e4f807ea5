"""Two nodes have the same node rank.

## What you see
Nothing for minutes. Then every node times out: `wait timeout ... keys: /none/torchelastic/role_info/0`. If both run on
one host, the second launcher fails with `EADDRINUSE`.

## Why it happens
The same command line with a constant --node-rank was run on every node. It is usually 0, so that both act as host of
the store. Or two jobs start on one host with the same MASTER_PORT.

## Fix
Give each node its own --node-rank, from 0 to nnodes - 1: `--node-rank 0` on the node that MASTER_ADDR names,
`--node-rank 1` on the next.

`distdoctor check` needs no --node-rank: it then assigns the ranks.

## Confirm with
`pgrep -af torchrun` shows a different --node-rank on every node.

## When it is harmless
With torchrun's c10d rendezvous (--rdzv-backend c10d), which ignores --node-rank.

## See also
environment/duplicate-rank, network/master-not-node0
"""

from collections.abc import Iterator
from dataclasses import replace

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Node,
    live,
    missing_node_ranks,
    names_of,
    together,
    two_jobs_fixes,
)

SEVERITY = "fail"
PREVENTS = "plan agreed"
LOOKS_AT = ("everyone",)
VARIABLES = ("PET_NODE_RANK", "NODE_RANK", "GROUP_RANK")
DIFFERENT = "Give each node its own --node-rank, from 0 to nnodes - 1, and restart the job on all nodes."
UNCLAIMED = ("", "default", "assigned at the meeting")
"""Sources of a node rank that nobody has given."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    claims: dict[int, list[Node]] = {}
    for node in cluster.nodes:
        source = node.plan.sources.get("node_rank", "")
        if node.plan.broken:
            continue  # its rank may be a consequence of them
        if node.plan.started == "node" and node.plan.node_rank is not None and source not in UNCLAIMED:
            claims.setdefault(node.plan.node_rank, []).append(node)
    for rank, nodes in sorted(claims.items()):
        if len(nodes) > 1:
            yield finding(cluster, rank, nodes)


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None:
        return
    by_rank: dict[int, list[tuple[Node, int]]] = {}
    for node, facts in job.facts:
        same = (facts.master_addr, facts.master_port) == (job.first.master_addr, job.first.master_port)
        for agent in facts.processes:
            # The c10d rendezvous gives the numbers out itself.
            if same and facts.rdzv_backend == "static" and agent.role == "agent" and agent.node_rank is not None:
                by_rank.setdefault(agent.node_rank, []).append((node, agent.pid))
    repeated = {rank: agents for rank, agents in sorted(by_rank.items()) if len(agents) > 1}
    for rank, agents in repeated.items():
        nodes = list(dict.fromkeys(node for node, _ in agents))
        several = names_of(nodes) if len(nodes) > 1 else f"{len(agents)} agents of torchrun on {nodes[0].name}"
        yield Finding.about(
            nodes,
            f"{several} have the same node rank, {rank}.",
            unsure=len(nodes) > 1,
            evidence=(f"{node.name}: torchrun's agent (pid {pid}) was started as node {rank}" for node, pid in agents),
            fixes=(Fix.on(nodes, DIFFERENT, unknown=("--node-rank",)),),
        )
    if not repeated:
        yield from too_few_node_ranks(job)


def too_few_node_ranks(job: live.LiveJob) -> Iterator[Finding]:
    """Yield the finding that fewer node ranks are written in the store than agents joined it.

    Each agent writes under its own node rank at once, and waits for the others
    (torch/distributed/elastic/agent/server/api.py, ``_assign_worker_ranks``).
    """
    planned, first = job.first.nnodes or 0, job.first
    view = next(
        (store for store in job.stores if store.state == "read" and not store.rendezvous and not store.via), None
    )
    if view is None or planned < 2 or first.rdzv_backend != "static" or job.ranks or job.young or view.groups:
        return
    written = sorted(agent.node for agent in view.agents if agent.node is not None)
    if not 0 < len(written) < planned or view.clients is None or view.clients < planned:
        return
    here = [node for node, facts in job.facts if facts.node_rank in written]
    numbers = f"node rank{'s' if len(written) > 1 else ''} {together(map(str, written))}"
    blamed = here if len(written) == 1 else []  # else it may be another number that is there twice
    yield Finding.about(
        blamed,
        f"{view.clients} nodes joined torchrun's store, but wrote only {numbers}: several have the same node rank.",
        unsure=True,
        evidence=(
            f"the store at {view.host} port {view.port} counts {view.clients} agents of {planned}; each waits for the "
            "node ranks of the others",
            *(f"{node.name}: torchrun's agent has node rank {facts.node_rank}" for node, facts in job.facts),
        ),
        fixes=(Fix.on([node for node, _ in job.facts], DIFFERENT, unknown=("--node-rank",)),),
    )


def finding(cluster: Cluster, rank: int, nodes: list[Node]) -> Finding:
    blamed = nodes
    if rank == 0:
        # The store is where node 0 is meant to be: the claimant there is right.
        rightful = [n for n in nodes if n.meeting.hosted]
        if len(rightful) == 1:
            blamed = [n for n in nodes if n is not rightful[0]]
    missing = missing_ranks_left(cluster, nodes)
    repeated = nodes[0] if len({n.host_key for n in nodes}) == 1 else None
    lacking = f" No node has node rank {together(map(str, missing))}." if 0 < len(missing) <= 8 else ""
    return Finding.about(
        blamed,
        f"{names_of(nodes)} have the same node rank, {rank}.{lacking}",
        unsure=len(blamed) > 1,
        evidence=(
            f"{n.name}: node rank {rank} (from {n.plan.sources['node_rank']}), pid {n.identity.pid} on "
            f"{n.identity.hostname}"
            for n in nodes
        ),
        fixes=started_twice(nodes, blamed[-1], missing)
        if repeated is not None
        else renumbering_fixes(nodes, node_to_renumber(blamed, missing), missing),
    )


def node_to_renumber(blamed: list[Node], missing: tuple[int, ...]) -> Node:
    """Return which of them gets another number: the later one, but 0 belongs to the node that MASTER_ADDR names."""
    named = [node for node in blamed if node.network.master_is_own]
    return named[0] if missing[:1] == (0,) and len(named) == 1 else blamed[-1]


def renumbering_fixes(nodes: list[Node], wrong: Node, missing: tuple[int, ...]) -> tuple[Fix, ...]:
    """Return the fix: another number for one node, or no number if a launcher numbers the nodes itself."""
    if any(node.plan.task is None for node in nodes):
        return (fix(wrong, missing),)
    source = nodes[0].plan.sources.get("node_rank", "")
    change = "--node-rank" if source not in VARIABLES else source
    text = f"Remove {change}: {nodes[0].plan.launcher} gives each node its node rank."
    if source in VARIABLES:
        return (Fix.on(nodes, text, env={source: None}),)
    return (Fix.on(nodes, text, flags={"--node-rank": None}),)


def started_twice(nodes: list[Node], later: Node, missing: tuple[int, ...]) -> tuple[Fix, ...]:
    """Return fixes for a start line that was run twice on one host, unless several nodes are meant to be on it."""
    pids = together(str(n.identity.pid) for n in nodes)
    hostname = nodes[0].identity.hostname
    once = Fix.on(
        nodes,
        f"End all but one of the {'two' if len(nodes) == 2 else len(nodes)} launchers on {hostname} (pids {pids}).",
    )
    if len(missing) != 1:
        return once, *two_jobs_fixes(later)
    other = fix(later, missing)
    text = f"Or, if several nodes are meant to be on {hostname}: {other.text[0].lower()}{other.text[1:]}"
    return once, replace(other, text=text, option=2)


def missing_ranks_left(cluster: Cluster, nodes: list[Node]) -> tuple[int, ...]:
    """Return the node ranks that no node declared; the rendezvous may have assigned one to a claimant already."""
    declared = {n.plan.node_rank for n in cluster.nodes if n.plan.node_rank is not None}
    total = max((n.plan.nnodes or 0 for n in nodes), default=0)
    return tuple(r for r in range(min(total, 100_000)) if r not in declared) or missing_node_ranks(cluster)


def fix(node: Node, missing: tuple[int, ...]) -> Fix:
    if len(missing) != 1:
        return Fix.on(node, "Give each node its own node rank from 0 to nnodes - 1.", unknown=("--node-rank",))
    text = f"Make {node.name} node {missing[0]}."
    source = node.plan.sources.get("node_rank", "")
    if source not in VARIABLES:
        return Fix.on(node, text, flags={"--node-rank": str(missing[0])})
    return Fix.on(node, text, env={source: str(missing[0])})
