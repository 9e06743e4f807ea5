"""torchrun starts some nodes, and another launcher starts single ranks on others.

## What you see
Nothing for minutes on any node. Nodes with single ranks then print `Timed out waiting for clients. 1/2 clients joined`.
Nodes with torchrun print `wait timeout ... keys: /none/torchelastic/role_info/0`.

## Why it happens
torchrun's agents join first, one per node, and start the ranks when all agents have joined. A rank that a person or
mpirun starts by RANK and WORLD_SIZE connects to the same port and waits for ranks. Neither side sees the other. Usually
the launch line changed on some nodes only, or one node still has the variables of an earlier launcher.

## Fix
Start all nodes with the same launcher, for example `torchrun --nnodes 2 --node-rank 1 --master-addr host0
--nproc-per-node 8 train.py`.

## Confirm with
`env | grep -E '^(RANK|WORLD_SIZE|LOCAL_RANK)='` prints the same kind of variables on every node.

## When it is harmless
Never for nodes of one job.

## See also
environment/rendezvous-backend-mismatch, environment/missing-variable, environment/world-size-mismatch
"""

from distdoctor.check_api import (
    LAUNCH_VARIABLES,
    Cluster,
    Disagreement,
    Finding,
    Fix,
    Iterator,
    Node,
    disagreement,
    names_of,
    rank_count,
    settings,
)

SEVERITY = "fail"
PREVENTS = "plan agreed"
LOOKS_AT = ("everyone",)
FOLLOWS = ("environment/missing-variable", "environment/invalid-variable")
OF_A_RANK = (*LAUNCH_VARIABLES, "LOCAL_RANK", "LOCAL_WORLD_SIZE")
KINDS = {"node": "once per node (torchrun)", "rank": "once per rank"}


def judge(cluster: Cluster) -> Iterator[Finding]:
    difference = disagreement({node.name: str(node.plan.started) for node in cluster.nodes})
    if difference is None or any(node.plan.agent_store for node in cluster.nodes):
        return
    parts = [
        f"{KINDS[kind]} on {names_of(started(cluster, kind))}" for kind in dict.fromkeys(difference.values.values())
    ]
    yield Finding.about(
        [node for node in cluster.nodes if node.name in difference.blamed],
        f"Different launchers start the nodes: {'; '.join(parts)}.",
        unsure=not difference.majority,
        evidence=map(line, cluster.nodes),
        fixes=fixes(cluster, difference),
    )


def started(cluster: Cluster, kind: str) -> list[Node]:
    return [node for node in cluster.nodes if node.plan.started == kind]


def line(node: Node) -> str:
    plan = node.plan
    if plan.started == "node":
        given = plan.sources.get("nnodes", "default")
        return f"{node.name}: one process for the node, of {plan.nnodes} nodes (from {given})"
    variables = {name: plan.sources.get(name, "default") for name in ("rank", "world_size")}
    return (
        f"{node.name}: one process for each rank, rank {plan.rank} (from {variables['rank']}) of {plan.world_size} "
        f"(from {variables['world_size']})"
    )


def fixes(cluster: Cluster, difference: Disagreement[str]) -> Iterator[Fix]:
    # torchrun's line is known; the launcher of single ranks is not.
    kinds = [difference.usual] if difference.majority else ["node", "rank"]
    for option, wanted in enumerate(kinds, start=1):
        right = started(cluster, wanted)
        others = [node for node in cluster.nodes if node not in right]
        if wanted == "rank":
            text = f"{'Or start' if option > 1 else 'Start'} each rank of {names_of(others)} without torchrun, with "
            yield Fix.on(others, f"{text}its own RANK and WORLD_SIZE, as on {names_of(right)}.", option)
            continue
        free = settings.free_node_ranks(right, len(cluster.nodes))
        yield from (as_torchrun(node, right[0], free, option) for node in others)


def as_torchrun(node: Node, right: Node, free: list[int], option: int) -> Fix:
    text = f"Start torchrun once on {node.name}, as on {right.name}, without the variables of a rank."
    counts = {"--nnodes": str(right.plan.nnodes), "--nproc-per-node": str(rank_count(node))}
    unset: dict[str, str | None] = {name: None for name in OF_A_RANK if name in node.variables}
    return Fix.on(node, text, option, env=unset, flags={**counts, **settings.flags_like(right, node, free)})
