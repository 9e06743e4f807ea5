"""The nodes make process groups of different backends.

What you see
------------
Nothing, or the error of one side only: the ranks with gloo wait in `init_process_group` for addresses that the others
never write (`wait timeout after ... keys: /default_pg/0//cpu//0/1`), those with nccl in the first collective.

Why it happens
--------------
The backend is chosen in the script from what the node has (`"nccl" if torch.cuda.is_available() else "gloo"`), given to
some of the nodes only, or one node has an older script. Each backend has its own way for ranks to find each other, and
a rank looks only for ranks of its own backend.

Fix
---
Give init_process_group() the same backend on every node.

When it is harmless
-------------------
Where two ways of writing it amount to the same for the devices that are there: `gloo`, `cpu:gloo` and nothing at all on
nodes without GPUs; nothing at all and `cpu:gloo,cuda:nccl` on nodes with.

See also
--------
environment/backend-not-built, environment/setting-mismatch
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Disagreement, Finding, Fix, Node, disagreement

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
    found = disagreement({node.name: amount(node, gpus) for node in cluster.nodes})
    if found is None:
        return
    parts = "; ".join(f"{said(node)} on {node.name}" for node in cluster.nodes)
    yield Finding.about(
        [node for node in cluster.nodes if node.name in found.blamed],
        f"The nodes make process groups of different backends: {parts}.",
        unsure=not found.majority,
        evidence=(f"{node.name}: {said(node)}, for {found.values[node.name]}" for node in cluster.nodes),
        fixes=fixes(cluster, found),
    )


def amount(node: Node, gpus: bool) -> str:
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
    # torch makes one group of gloo for all devices that are to have it: whether cuda is named beside cpu is the same.
    if set(made.values()) == {"gloo"}:
        return "gloo"
    return ", ".join(f"{device} with {backend}" for device, backend in sorted(made.items()))


def said(node: Node) -> str:
    return "no backend given" if node.plan.backend == "auto" else f"backend {node.plan.backend}"


def fixes(cluster: Cluster, found: Disagreement[str]) -> Iterator[Fix]:
    wanted = list(dict.fromkeys((found.usual, *found.values.values())))
    for option, one in enumerate(wanted[:1] if found.majority else wanted[:2], start=1):
        right = next(node for node in cluster.nodes if found.values[node.name] == one)
        others = [node for node in cluster.nodes if found.values[node.name] != one]
        given = None if right.plan.backend == "auto" else right.plan.backend
        text = f"Make the same groups on all nodes: {said(right)}, as on {right.name}."
        yield Fix.on(others, text, option, flags={"--backend": given})
