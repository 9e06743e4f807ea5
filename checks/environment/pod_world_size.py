"""RANK and WORLD_SIZE count pods, but the launcher does not read them.

## What you see
Every pod trains alone as rank 0. Or the job has as many ranks as pods, and one of a pod's 8 GPUs works.

## Why it happens
Kubernetes operators (PyTorchJob, Volcano) set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in each pod, and count
pods. torchrun does not read RANK and WORLD_SIZE: without --nnodes it starts a job of one node. A script that reads them
itself is one rank.

## Fix
Pass the operator's variables to torchrun: `torchrun --nnodes $WORLD_SIZE --node-rank $RANK --master-addr $MASTER_ADDR
--master-port $MASTER_PORT --nproc-per-node 8 train.py`.

Or set nprocPerNode in the PyTorchJob: the pods then have PET_* variables, which torchrun reads.

## Confirm with
`kubectl exec POD -- env | grep -E '^(RANK|WORLD_SIZE|PET_)'` prints the PET_ variables or the values that you pass on.

## When it is harmless
The pods are meant to train alone, or one rank of a pod uses all of its GPUs.

## See also
environment/scheduler-mismatch, environment/world-size-mismatch
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, gpus, names_of

SEVERITY = "warn"
MATTERS = "each pod trains by itself, as a job of its own"
IN_POD = "KUBERNETES_SERVICE_HOST"
RANK, PODS, ADDRESS, PORT = "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"
OF_A_RANK = ("LOCAL_RANK", "LOCAL_WORLD_SIZE")
"""Variables that launchers of ranks set, and operators do not."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    apart = [node for node in cluster.nodes if counts_pods(node) and starts_its_own_job(node)]
    if apart:
        yield Finding.about(
            apart,
            f"{names_of(apart)} would start a job of one node each, but the pods belong to one job."
            if len(apart) > 1
            else f"{names_of(apart)} would start a job of one node, but the pod belongs to a job of several.",
            evidence=map(seen, apart),
            fixes=(Fix.on(node, "Start torchrun as a node of the whole job.", flags=flags(node)) for node in apart),
        )
    idle = {node: count for node in cluster.nodes if counts_pods(node) and (count := left_idle(node))}
    if idle:
        most = max(idle.values())
        yield Finding.about(
            idle,
            f"Each pod has one rank, by RANK and WORLD_SIZE, but {most} GPUs.",
            severity="info",
            evidence=(f"{seen(node)}; it sees {count} GPUs" for node, count in idle.items()),
            fixes=(
                Fix.on(node, "For one rank per GPU, use torchrun.", flags={**flags(node), "--nproc-per-node": str(n)})
                for node, n in idle.items()
            ),
        )


def counts_pods(node: Node) -> bool:
    """Return whether an operator has numbered this pod among several."""
    there, world = node.variables, node.variables.get(PODS, "")
    named = IN_POD in there and bool(there.get(ADDRESS)) and there.get(RANK, "").isdecimal()
    return named and world.isdecimal() and int(world) > 1 and not any(name in there for name in OF_A_RANK)


def starts_its_own_job(node: Node) -> bool:
    return node.plan.started == "node" and node.plan.sources.get("nnodes") == "default"


def left_idle(node: Node) -> int:
    """Return how many GPUs a pod has of which its one rank uses one; 0 where it has no more."""
    plan = node.plan
    one_rank = plan.started == "rank" and len(node.facts.ranks) == 1 and plan.world_size == int(node.variables[PODS])
    seen = len(gpus.visible_gpus(node)) if one_rank and gpus.wants_gpus(node) else 0
    return seen if seen > 1 else 0


def flags(node: Node) -> dict[str, str | None]:
    there = node.variables
    port = {"--master-port": there[PORT]} if there.get(PORT) else {}
    return {"--nnodes": there[PODS], "--node-rank": there[RANK], "--master-addr": there[ADDRESS], **port}


def seen(node: Node) -> str:
    there = node.variables
    how = f"--nnodes is not given, and {IN_POD} is set" if starts_its_own_job(node) else f"{IN_POD} is set"
    return f"{node.name}: {RANK}={there[RANK]}, {PODS}={there[PODS]}, {ADDRESS}={there[ADDRESS]}; {how}"
