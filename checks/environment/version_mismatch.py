"""The nodes run different versions of torch, NCCL, CUDA or distdoctor.

What you see
------------
Different versions of NCCL refuse each other (from 2.23 on: `Mismatched NCCL version detected`). Or they stop in the
first collective with `Message truncated : received 1024 bytes instead of 256`. Different versions of torch mostly
start. They fail where the protocol of a store or a collective changed between them, or give different results.

Why it happens
--------------
The nodes' environments were installed at different times, one node uses another environment, or its image is older. Or
another nvidia-nccl wheel was installed there next to torch. The compared version is that of the loaded library, which
torch.cuda.nccl.version() does not report.

Fix
---
Install the same versions on every node: `pip install torch==2.13.0`.

Confirm with
------------
`python -m torch.utils.collect_env | grep -E 'PyTorch|nccl'` prints the same versions on every node.

When it is harmless
-------------------
Two patch releases of torch, with gloo. Different versions of distdoctor alone do not harm a job. But they often mean
that other packages differ, too.

See also
--------
environment/torch-missing, environment/backend-not-built
"""

from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    Disagreement,
    Finding,
    Fix,
    Line,
    Node,
    disagreement,
    fixes_by_command,
    gpus,
    install_torch_command,
    plans_nccl_group,
    together,
)

SEVERITY = "warn"
PREVENTS = "nccl group formed"
UNLIKE = "ranks with different NCCL settings or plugins show the same"
"""Seen on an H100 with one version and NCCL_MAX_NCHANNELS=1 on one of two ranks, NCCL_MIN_NCHANNELS=8 on the other."""
LOG = (
    Line("settings: the ranks have different versions of NCCL", shows="hint", why="close versions may work together"),
    Line(
        "Message truncated : received",
        r"Message truncated : received (?P<got>\d+)(?:,\d+)? bytes instead of (?P<wanted>\d+)",
        shows="symptom",
        why=UNLIKE,
    ),
    Line(  # NCCL issue 1267
        "is neither AF_INET", shows="symptom", why=UNLIKE
    ),
    Line("Mismatched NCCL version"),
    Line("NCCL version mismatch with remote peer"),
)
MATTERS = "different versions fail where the protocol between them has changed"
LOOKS_AT = ("identity.torch", "everyone")
FOLLOWS_ANYWHERE = ("environment/backend-not-built",)
REFUSES = [2, 23]
"""From this NCCL on each rank compares the versions of all, and ends where they differ (its src/init.cc)."""
NAMES = {"torch": "torch", "nccl": "NCCL", "cuda": "CUDA", "distdoctor": "distdoctor"}


def judge(cluster: Cluster) -> Iterator[Finding]:
    differences = {what: difference for what in NAMES if (difference := differing(cluster, what)) is not None}
    if not differences:
        return
    majority = all(difference.majority for difference in differences.values())
    blamed = {
        name for difference in differences.values() for name in (difference.others if majority else difference.blamed)
    }
    nodes = [node for node in cluster.nodes if node.name in blamed]
    yield Finding.about(
        nodes,
        f"{'; '.join(versions_text(what, difference) for what, difference in differences.items())}.",
        unsure=not majority,
        severity="fail" if refused(cluster, differences) else "warn",
        evidence=(line(node) for node in cluster.nodes),
        fixes=fixes(cluster, differences),
    )


def refused(cluster: Cluster, differences: dict[str, Disagreement[str]]) -> bool:
    """Return whether NCCL's group of these nodes cannot be made for that."""
    if "nccl" not in differences or not all(map(plans_nccl_group, cluster.nodes)) or gpus.nccl_made(cluster.nodes):
        return False
    versions = [version.split(".")[:2] for version in differences["nccl"].values.values()]
    return any(
        all(map(str.isdecimal, version_parts)) and list(map(int, version_parts)) >= REFUSES
        for version_parts in versions
    )


def differing(cluster: Cluster, what: str) -> Disagreement[str] | None:
    """Return how the nodes disagree on a version, of those on which it is known."""
    known = {node.name: getattr(node.identity, what) for node in cluster.nodes}
    return disagreement({name: version for name, version in known.items() if version})


def versions_text(what: str, difference: Disagreement[str]) -> str:
    return together(
        f"{NAMES[what]} {version} on {together(n for n, its in difference.values.items() if its == version)}"
        for version in dict.fromkeys(difference.values.values())
    )


def line(node: Node) -> str:
    identity = node.identity
    parts = [f"{NAMES[what]} {version}" for what in NAMES if (version := getattr(identity, what))]
    return f"{node.name}: {', '.join(parts)}"


def fixes(cluster: Cluster, differences: dict[str, Disagreement[str]]) -> Iterator[Fix]:
    if "distdoctor" in differences:
        difference = differences["distdoctor"]
        target = difference.usual if difference.majority else max(difference.values.values())
        names = tuple(name for name, version in difference.values.items() if version != target)
        yield Fix(f"Install distdoctor {target} on all nodes.", names)
    if "torch" in differences:
        difference = differences["torch"]
        wrong = [node for node in cluster.nodes if node.name in difference.others]
        commands = {node.name: install_torch_command(cluster, node, version=difference.usual) for node in wrong}
        yield from fixes_by_command(wrong, f"Install torch {difference.usual} on all nodes.", commands)
    elif "nccl" in differences or "cuda" in differences:
        others = dict.fromkeys(n for what in ("nccl", "cuda") if what in differences for n in differences[what].others)
        usual = next((n for n in cluster.nodes if n.name not in others), cluster.nodes[0])
        text = f"Install the same build of torch and the same NCCL as on {usual.name}."
        yield Fix(text, tuple(others))
