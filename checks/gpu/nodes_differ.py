"""The nodes' GPUs are not alike.

What you see
------------
Out of memory on one node alone; a step that takes as long as on the slowest; different results; NCCL that takes another
way than it could.

Why it happens
--------------
One node came up with a GPU less, or has another model, driver, MIG or ECC setting than the others.

Fix
---
Take the node out, or make it like the others: its driver, nvidia-smi -mig, nvidia-smi -e.

When it is harmless
-------------------
Where the job was made for unlike nodes.

See also
--------
gpu/fewer-than-ranks, environment/version-mismatch
"""

from collections.abc import Callable, Hashable, Iterator

from distdoctor.check_api import Cluster, Disagreement, Finding, Fix, Node, disagreement, gpus, names_of

SEVERITY = "warn"
FOLLOWS_ANYWHERE = ("nccl/driver-too-old",)
MATTERS = "what fits, and how long it takes, is decided by the least of them"


def judge(cluster: Cluster) -> Iterator[Finding]:
    nodes = [node for node in cluster.nodes if gpus.wants_gpus(node) and (gpus.driver(node).source or of_amd(node))]
    apart: dict[str, Disagreement[Hashable]] = {}
    for what, value in SUBJECTS.items():
        known = {node.name: its for node in nodes if (its := value(node)) != ""}
        found = disagreement(known)
        if found is not None:
            apart[what] = found
    if not apart:
        return
    blamed = {name for found in apart.values() for name in found.blamed}
    bad = [node for node in nodes if node.name in blamed]
    differences = "; ".join(f"{what}: {found.said()}" for what, found in apart.items())
    yield Finding.about(
        bad,
        f"The GPUs of the nodes are not alike: {differences}.",
        unsure=not all(found.majority for found in apart.values()),
        evidence=(f"{node.name}: {said(node)}" for node in nodes),
        fixes=[Fix.on(bad, f"Take {names_of(bad)} out of the job, or make it like the others.")],
    )


def of_amd(node: Node) -> bool:
    """Return whether its GPUs are AMD's; a command of AMD's tells the models and the driver, the kernel the rest."""
    return node.facts.amd is not None and not gpus.driver(node).devices


def count(node: Node) -> Hashable:
    return node.facts.amd.devices if node.facts.amd is not None and of_amd(node) else len(gpus.driver(node).devices)


def driver(node: Node) -> Hashable:
    return node.facts.amd.module if node.facts.amd is not None and of_amd(node) else gpus.driver(node).module


def model(node: Node) -> Hashable:
    """Empty where it is not known which of the devices the job uses."""
    return ", ".join(sorted({device.name for device in gpus.used_devices(node)}))


def memory(node: Node) -> Hashable:
    """Empty where the driver does not say it of each, as of a GPU that shares the processor's memory."""
    sizes = {device.memory for device in gpus.used_devices(node)}
    return "" if None in sizes else ", ".join(f"{size / (1 << 30):.0f} GiB" for size in sorted(filter(None, sizes)))


def state(field: str) -> Callable[[Node], Hashable]:
    """Return whether a mode is on, for all devices alike; empty where it is not known of each."""

    def of(node: Node) -> Hashable:
        found = {getattr(device, field) for device in gpus.used_devices(node)}
        return "" if None in found else " and ".join(sorted("on" if one else "off" for one in found))

    return of


SUBJECTS: dict[str, Callable[[Node], Hashable]] = {
    "GPUs": count,
    "model": model,
    "memory": memory,
    "driver": driver,
    "MIG": state("mig"),
    "ECC": state("ecc"),
}
"""What is compared. A node's own count, whatever its ranks see: one that came up with a GPU less."""


def said(node: Node) -> str:
    return ", ".join(f"{what} {its}" for what, value in SUBJECTS.items() if (its := value(node)) not in ("", None))
