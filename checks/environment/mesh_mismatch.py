"""The device mesh does not fit the ranks, or differs between nodes.

## What you see
`Mesh should not be bigger than default world size`, or an assertion of the framework (`world_size must be equal to
...`). If only some nodes have another mesh, nothing: the ranks wait in new_group() or in their first collective.

## Why it happens
The sizes of the mesh (dp, tp, pp and so on) multiply to the number of ranks. The number of nodes changed, and the
sizes did not. Or one node starts with another configuration.

Every rank creates all groups of the mesh, in the same order. Ranks with different meshes wait in different groups.

## Fix
Set the sizes so that their product is the number of ranks, the same on every node: `--mesh dp=4,tp=4` for 16 ranks.

## Confirm with
`for h in host0 host1; do ssh $h 'pgrep -af train.py'; done` shows the same sizes on every node.

## When it is harmless
A DeviceMesh may have fewer ranks than the job: the finding is then a WARN. Ranks outside have no group in it, and most
frameworks refuse that. It is also a WARN if only the check was started without --mesh on a node.

## See also
environment/world-size-mismatch, environment/uneven-ranks, collective/group-failed
"""

from collections.abc import Iterator, Mapping

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Line,
    Node,
    device_mesh,
    disagreement,
    names_of,
    planned_rank_count,
    set_launch_fix,
    together,
)

SEVERITY = "fail"
MATTERS = "ranks outside of the mesh belong to none of its groups"
PREVENTS = "plan agreed"
LOOKS_AT = ("everyone",)
LOG = (
    Line(
        "Mesh should not be bigger than default world size", r"Mesh should not be bigger than default world size,? \d"
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    differing = list(differences(cluster))
    yield from differing
    if not any(finding.severity == "fail" for finding in differing):
        yield from unfitting(cluster)


def differences(cluster: Cluster) -> Iterator[Finding]:
    texts = {node.name: mesh_text(node) for node in cluster.nodes}
    without = [node for node in cluster.nodes if not texts[node.name]]
    differing = disagreement({name: text for name, text in texts.items() if text})
    if differing is not None:
        blamed = [node for node in cluster.nodes if node.name in differing.blamed]
        yield Finding.about(
            blamed,
            f"The nodes have different meshes: {parts(differing.values)}.",
            unsure=not differing.majority,
            evidence=(f"{name}: {text}" for name, text in differing.values.items()),
            fixes=(fix for node in blamed for fix in fixes_like(cluster, node, differing.usual)),
        )
    elif without and len(without) < len(cluster.nodes):
        usual = next(text for text in texts.values() if text)
        yield Finding.about(
            without,
            f"{names_of(without)} {'has' if len(without) == 1 else 'have'} no mesh, and the others {usual}.",
            severity="warn",
            evidence=(f"{name}: {text or 'neither --mesh nor --groups'}" for name, text in texts.items()),
            fixes=(fix for node in without for fix in fixes_like(cluster, node, usual)),
        )


def mesh_text(node: Node) -> str:
    """Return the mesh, the groups that the start line makes of it, and the extra groups of a node's plan; empty if it
    has none."""
    plan = node.plan
    words = [f"--mesh {device_mesh.text_of(plan.mesh)}"] if plan.mesh else []
    words += [f"with groups of {', '.join(plan.mesh_order)}"] if plan.mesh_order else []
    return " ".join([*words, *([f"--groups {plan.groups}"] if plan.groups else [])])


def parts(values: Mapping[str, str]) -> str:
    return "; ".join(
        f"{text} on {together(name for name, value in values.items() if value == text)}"
        for text in dict.fromkeys(values.values())
    )


def fixes_like(cluster: Cluster, node: Node, usual: str) -> Iterator[Fix]:
    """Yield the fix that gives this node the mesh and the groups of the others."""
    right = next(node for node in cluster.nodes if mesh_text(node) == usual)
    flags: dict[str, str | None] = {}
    if right.plan.mesh != node.plan.mesh:
        flags["--mesh"] = device_mesh.text_of(right.plan.mesh) or None
    if right.plan.groups != node.plan.groups:
        flags["--groups"] = str(right.plan.groups)
    if right.plan.mesh_order != node.plan.mesh_order:
        yield Fix.on(node, f"Start {node.name} with the same parallel sizes and switches as {right.name}.")
    else:
        yield Fix.on(node, f"Start {node.name} with {usual}, as the other nodes.", flags=flags)


def unfitting(cluster: Cluster) -> Iterator[Finding]:
    """Yield the finding about a mesh whose product is not the number of ranks."""
    ranks = planned_rank_count(cluster)
    nodes = [node for node in cluster.nodes if node.plan.mesh and device_mesh.size(node.plan.mesh) != ranks]
    if not nodes or cluster.plan.world_size is None:
        return
    mesh = nodes[0].plan.mesh
    size = device_mesh.size(mesh)
    product = " x ".join(str(length) for _, length in mesh)
    yield Finding.about(
        nodes,
        f"The mesh {device_mesh.text_of(mesh)} has {size} ranks, and the job has {ranks}.",
        severity="fail" if size > ranks else "warn",
        evidence=(
            f"{product} = {size}; {len(cluster.nodes)} {'node' if len(cluster.nodes) == 1 else 'nodes'} with "
            f"{together(str(n) for n in dict.fromkeys(node.plan.nproc_per_node for node in cluster.nodes))} ranks each",
        ),
        fixes=fixes_of_size(nodes, mesh, ranks),
    )


def fixes_of_size(nodes: list[Node], mesh: device_mesh.Mesh, ranks: int) -> Iterator[Fix]:
    """Yield another size of the outermost dimension, or as many ranks as the mesh has, where either is possible."""
    (outer, length), *inner = mesh
    rest = device_mesh.size(mesh) // length
    option = 1
    if ranks % rest == 0:
        fitting = device_mesh.text_of(((outer, ranks // rest), *inner))
        yield Fix.on(nodes, f"Set {outer} to {ranks // rest}.", flags={"--mesh": fitting})
        option = 2
    count = nodes[0].plan.nnodes
    if nodes[0].plan.started == "node" and count and length * rest % count == 0:
        each = length * rest // count
        for node in nodes:
            text = f"{'Or start' if option > 1 else 'Start'} {each} ranks on each node."
            yield set_launch_fix(node, text, "nproc_per_node", each, option)
    elif option == 1:
        yield Fix.on(nodes, f"Set the sizes of the mesh so that their product is {ranks}.")
