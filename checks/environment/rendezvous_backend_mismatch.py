"""The nodes use different rendezvous backends.

## What you see
Nothing on any node until the rendezvous times out. With --rdzv-backend c10d that is `RendezvousTimeoutError` after ten
minutes. With the static rendezvous the store times out after fifteen. The same address and port do not help.

## Why it happens
torchrun's static rendezvous (the default, with --master-addr and --node-rank) and the c10d one (--rdzv-backend c10d
--rdzv-endpoint) write different keys into the store. Each waits for keys that the other never writes. The launch line
changed on some nodes only, or PET_RDZV_BACKEND is set on one of them.

--master-addr and --node-rank apply to the static rendezvous only. c10d uses --rdzv-endpoint, which defaults to
localhost: each node then forms a world of its own. torchrun prints `master_addr is only used for static rdzv_backend`,
but before 2.2 it always did.

## Fix
Start all nodes with the same rendezvous: `torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint host0:29500 ...`, or
--master-addr without --rdzv-backend.

## Confirm with
`pgrep -af torchrun; env | grep PET_` shows the same rendezvous on every node.

## When it is harmless
Never for nodes of one job.

## See also
environment/rendezvous-id-mismatch, environment/master-mismatch
"""

from distdoctor.check_api import Cluster, Disagreement, Finding, Fix, Iterator, Node, disagreement, settings

SEVERITY = "fail"
PREVENTS = "all met"
LOOKS_AT = ("everyone",)
FOLLOWS = ("environment/invalid-variable",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    # Once per rank, the agents that start the ranks have met already.
    nodes = [node for node in cluster.nodes if node.plan.started == "node"]
    difference = disagreement({node.name: node.plan.rdzv_backend for node in nodes})
    if difference is None:
        yield from other_backend_findings(cluster, nodes)
        return
    yield Finding.about(
        [node for node in nodes if node.name in difference.blamed],
        f"The nodes use different rendezvous backends: {difference.said()}.",
        unsure=not difference.majority,
        evidence=map(line, nodes),
        fixes=fixes(nodes, difference),
    )


def other_backend_findings(cluster: Cluster, nodes: list[Node]) -> Iterator[Finding]:
    """Return what a node says that knows only itself, and found a store of the other kind where it is to be met."""
    for node in nodes if cluster.node0 is None else ():
        run = node.network.elsewhere
        if run is None or node.meeting.joined or run.plan.rdzv_backend == node.plan.rdzv_backend:
            continue
        text = f"Start both with the same rendezvous: {run.host} uses {run.plan.rdzv_backend} on port {run.port}."
        yield Finding.about(
            (node.name, run.host),
            f"{node.name} uses the rendezvous backend {node.plan.rdzv_backend}, but {run.host}, which waits on port "
            f"{run.port}, uses {run.plan.rdzv_backend}.",
            links=((node.name, run.host),),
            unsure=True,
            evidence=(line(node), f"{run.host}: rendezvous {run.plan.rdzv_backend} at {run.address} port {run.port}"),
            fixes=(Fix.on(node, text),),
        )


def line(node: Node) -> str:
    source = node.plan.sources.get("rdzv_backend", "default")
    return (
        f"{node.name}: rendezvous {node.plan.rdzv_backend} (from {source}) at {node.plan.master_addr} port "
        f"{node.plan.master_port}"
    )


def fixes(nodes: list[Node], difference: Disagreement[str]) -> Iterator[Fix]:
    others = [value for value in dict.fromkeys(difference.values.values()) if value != difference.usual]
    for option, wanted in enumerate(
        [difference.usual] if difference.majority else [difference.usual, *others], start=1
    ):
        rightly = [node for node in nodes if node.plan.rdzv_backend == wanted]
        right, free = rightly[0], settings.free_node_ranks(rightly, len(nodes))
        text = f"Use the {wanted} rendezvous, as on {right.name}."
        for node in nodes:
            if node not in rightly:
                yield changed(node, settings.flags_like(right, node, free), text, option)


def changed(node: Node, flags: dict[str, str | None], text: str, option: int) -> Fix:
    """The fix, by the variable of a flag where the node has that set (PET_RDZV_BACKEND for --rdzv-backend)."""
    env: dict[str, str | None] = {}
    for flag in tuple(flags):
        variable = "PET_" + flag.strip("-").upper().replace("-", "_")
        if variable in node.variables:
            env[variable] = flags.pop(flag)
    return Fix.on(node, text, option, env=env, flags=flags)
