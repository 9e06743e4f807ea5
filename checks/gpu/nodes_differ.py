"""The nodes have different GPUs or GPU settings.

## What you see
Out of memory on one node alone, steps as slow as the slowest node, different results, or NCCL with a slower transport
than possible.

## Why it happens
One node has a GPU less, or has another model, driver, MIG or ECC setting than the others.

## Fix
Remove the node from the job, or change it to match the others: install the same driver, `nvidia-smi -mig 0`,
`nvidia-smi -e 1`.

## Confirm with
`nvidia-smi --query-gpu=count,name,driver_version,mig.mode.current,ecc.mode.current --format=csv` on
every node.

## When it is harmless
When the job is designed for different nodes.

## See also
gpu/fewer-than-ranks, environment/version-mismatch
"""

from collections.abc import Callable, Hashable, Iterator

from distdoctor.check_api import Cluster, Disagreement, Finding, Fix, Node, disagreement, gpus, names_of

SEVERITY = "warn"
FOLLOWS_ANYWHERE = ("nccl/driver-too-old",)
MATTERS = "the smallest and slowest GPU decides what fits and how long a step takes"


def judge(cluster: Cluster) -> Iterator[Finding]:
    nodes = [node for node in cluster.nodes if gpus.wants_gpus(node) and (gpus.driver(node).source or of_amd(node))]
    differing: dict[str, Disagreement[Hashable]] = {}
    for subject, value in SUBJECTS.items():
        known = {node.name: state for node in nodes if (state := value(node)) != ""}
        difference = disagreement(known)
        if difference is not None:
            differing[subject] = difference
    if not differing:
        return
    blamed = {name for difference in differing.values() for name in difference.blamed}
    bad = [node for node in nodes if node.name in blamed]
    differences = "; ".join(f"{subject}: {difference.said()}" for subject, difference in differing.items())
    yield Finding.about(
        bad,
        f"The GPUs of the nodes differ: {differences}.",
        unsure=not all(difference.majority for difference in differing.values()),
        evidence=(f"{node.name}: {description(node)}" for node in nodes),
        fixes=[
            Fix.on(
                bad,
                f"Remove {names_of(bad)} from the job, or match the other nodes. Confirm with: `nvidia-smi -q` on "
                "both.",
            )
        ],
    )


def of_amd(node: Node) -> bool:
    """Return whether the node has AMD GPUs; AMD's command shows models and driver, the kernel the rest."""
    return node.facts.amd is not None and not gpus.driver(node).devices


def count(node: Node) -> Hashable:
    return node.facts.amd.devices if node.facts.amd is not None and of_amd(node) else len(gpus.driver(node).devices)


def driver(node: Node) -> Hashable:
    return node.facts.amd.module if node.facts.amd is not None and of_amd(node) else gpus.driver(node).module


def model(node: Node) -> Hashable:
    """Return the models of the used devices; empty if it is unknown which are used."""
    return ", ".join(sorted({device.name for device in gpus.used_devices(node)}))


def memory(node: Node) -> Hashable:
    """Return the memory sizes; empty if one is unknown, as of a GPU that shares the processor's memory."""
    sizes = {device.memory for device in gpus.used_devices(node)}
    return "" if None in sizes else ", ".join(f"{size / (1 << 30):.0f} GiB" for size in sorted(filter(None, sizes)))


def state(field: str) -> Callable[[Node], Hashable]:
    """Return a function that gives the states of a mode on a node's devices; empty if one is unknown."""

    def of(node: Node) -> Hashable:
        states = {getattr(device, field) for device in gpus.used_devices(node)}
        return "" if None in states else " and ".join(sorted("on" if on else "off" for on in states))

    return of


SUBJECTS: dict[str, Callable[[Node], Hashable]] = {
    "GPUs": count,
    "model": model,
    "memory": memory,
    "driver": driver,
    "MIG": state("mig"),
    "ECC": state("ecc"),
}
"""The compared properties. The count is the node's own, whatever its ranks see."""


def description(node: Node) -> str:
    return ", ".join(
        f"{subject} {text}" for subject, value in SUBJECTS.items() if (text := value(node)) not in ("", None)
    )
