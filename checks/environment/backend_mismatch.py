"""The nodes create process groups with different backends.

## What you see
Nothing, or an error on one side only. Ranks with gloo wait in `init_process_group` for addresses that the others never
write (`wait timeout after ... keys: /default_pg/0//cpu//0/1`). Ranks with nccl wait in the first collective.

## Why it happens
The script chooses the backend from what the node has (`"nccl" if torch.cuda.is_available() else "gloo"`). Or only some
nodes get the option, or one node has an older script. Ranks of different backends never connect.

## Fix
Give init_process_group() the same backend on every node: `dist.init_process_group(backend="nccl")`.

## Confirm with
`python -c "import torch; print(torch.cuda.is_available())"` prints the same on every node.

## When it is harmless
Both spellings mean the same for the devices present. On nodes without GPUs these are `gloo`, `cpu:gloo` and no backend;
on nodes with GPUs no backend and `cpu:gloo,cuda:nccl`.

## See also
environment/backend-not-built, environment/setting-mismatch
"""

from distdoctor.check_api import Cluster, Disagreement, Finding, Fix, Iterator, Node, disagreement

SEVERITY = "fail"
PREVENTS = "gloo group formed"
LOOKS_AT = ("everyone",)
FOLLOWS = ("environment/backend-not-built", "environment/invalid-variable")
ALONE = {"nccl": ("cuda",), "xccl": ("xpu",), "hccl": ("hpu",)}
"""The devices that a backend given by its name alone is for, where that is not cpu and cuda (Backend.backend_capability
in torch/distributed/distributed_c10d.py)."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    if len({node.plan.backend for node in cluster.nodes}) < 2:
        return  # what the same words amount to is the GPUs' affair
    gpus = any(node.gpus for node in cluster.nodes)
    difference = disagreement({node.name: backends_by_device(node, gpus) for node in cluster.nodes})
    if difference is None:
        return
    parts = "; ".join(f"{backend_text(node)} on {node.name}" for node in cluster.nodes)
    yield Finding.about(
        [node for node in cluster.nodes if node.name in difference.blamed],
        f"The nodes create process groups with different backends: {parts}.",
        unsure=not difference.majority,
        evidence=(f"{node.name}: {backend_text(node)}, for {difference.values[node.name]}" for node in cluster.nodes),
        fixes=fixes(cluster, difference),
    )


def backends_by_device(node: Node, gpus: bool) -> str:
    """The backend of each device that the nodes have, as ``cpu with gloo, cuda with nccl``.

    Without GPUs only what is made for the processor counts, where there is that.
    """
    made: dict[str, str] = {}
    if node.plan.backend == "auto":
        made = {"cpu": "gloo", "cuda": "nccl"}
    for part in node.plan.backend.split(",") if not made else ():
        device, _, backend = part.rpartition(":")
        made |= dict.fromkeys((device,) if device else ALONE.get(backend, ("cpu", "cuda")), backend)
    if not gpus and "cpu" in made:
        made = {"cpu": made["cpu"]}
    # torch creates one gloo group for all its devices: naming cuda in addition to cpu changes nothing.
    if set(made.values()) == {"gloo"}:
        return "gloo"
    return ", ".join(f"{device} with {backend}" for device, backend in sorted(made.items()))


def backend_text(node: Node) -> str:
    return "no backend given" if node.plan.backend == "auto" else f"backend {node.plan.backend}"


def fixes(cluster: Cluster, difference: Disagreement[str]) -> Iterator[Fix]:
    wanted = list(dict.fromkeys((difference.usual, *difference.values.values())))
    for option, backends in enumerate(wanted[:1] if difference.majority else wanted[:2], start=1):
        right = next(node for node in cluster.nodes if difference.values[node.name] == backends)
        others = [node for node in cluster.nodes if difference.values[node.name] != backends]
        given = None if right.plan.backend == "auto" else right.plan.backend
        text = f"Use the same backend on all nodes: {backend_text(right)}, as on {right.name}."
        yield Fix.on(others, text, option, flags={"--backend": given})
