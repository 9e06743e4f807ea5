"""The nodes run different versions of torch, NCCL, CUDA or an engine.

## What you see
Different versions of NCCL refuse each other (from 2.23 on: `Mismatched NCCL version detected`). Or they stop in the
first collective with `Message truncated : received 1024 bytes instead of 256`. Different versions of torch mostly
start. They fail where the protocol of a store or a collective changed between them, or give different results. Engines
and transports (vLLM, SGLang, Ray, NIXL, NVSHMEM, DeepEP) are compared in the same way. Ray refuses a node with another
version (`Version mismatch: The cluster was started with`). The others fail when a message has another format. NVSHMEM
refuses a host library of another version than the one that an extension such as DeepEP was built with.

## Why it happens
The nodes' environments were installed at different times, one node uses another environment, or its image is older. Or
another nvidia-nccl wheel was installed there next to torch. The compared version is that of the loaded library, which
torch.cuda.nccl.version() does not report.

## Fix
Install the same versions on every node, as in `pip install torch==2.13.0`.

## Confirm with
`python -m torch.utils.collect_env | grep -E 'PyTorch|nccl'` prints the same versions on every node.

## When it is harmless
Two patch releases of torch, with gloo. Different versions of distdoctor alone do not harm a job. But they often mean
that other packages differ, too. A package that the job does not import.

## See also
environment/torch-missing, environment/backend-not-built
"""

from collections.abc import Iterable, Iterator

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
    pip_command,
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
    Line(  # ray/_private/worker.py; a difference of Python's patch version alone is a warning with another beginning
        "RuntimeError: Version mismatch: The cluster was started with"
    ),
    Line(  # mooncake-store/src/master_client.cpp
        "Version mismatch: server=",
        r"Version mismatch: server=(?P<got>\S{1,40}) client=(?P<wanted>\S{1,40})",
        told="Mooncake's master has another version than the client in the engine",
        fix="Install the same version of mooncake-transfer-engine where the master and the engines run.",
    ),
    Line(  # nvshmemid_hostlib_init_attr; from 3.6.5 on with both versions in parentheses
        "NVSHMEM device library version",
        r"NVSHMEM device library version (?:\((?P<got>[\d.]{1,20})\) )?does not match with NVSHMEM host library version"
        r"(?: \((?P<wanted>[\d.]{1,20})\))?",
        told="NVSHMEM's host library has another version than the extension that uses it was built with",
        fix="Rebuild the extension (such as DeepEP) against the loaded NVSHMEM, or load the one it was built with: "
        "`export LD_PRELOAD=/path/to/libnvshmem_host.so.3`.",
    ),
)
MATTERS = "different versions fail where the protocol between them has changed"
LOOKS_AT = ("identity.torch", "everyone")
FOLLOWS_ANYWHERE = ("environment/backend-not-built",)
REFUSES = [2, 23]
"""From this NCCL on each rank compares the versions of all, and ends where they differ (its src/init.cc)."""
NAMES = {"torch": "torch", "nccl": "NCCL", "cuda": "CUDA", "distdoctor": "distdoctor"}
EFA = "efa-installer"
"""Entry that no package index has."""
LOADED = "nvidia-nccl-"
"""Beginning of the names of packages of which the loaded version is known better."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    installed = sorted({name for node in cluster.nodes for name in node.identity.packages})
    compared = (*NAMES, *(name for name in installed if not name.startswith(LOADED)))
    differences = {what: difference for what in compared if (difference := differing(cluster, what)) is not None}
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
        evidence=(line(node, differences) for node in cluster.nodes),
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
    return disagreement({node.name: its for node in cluster.nodes if (its := version(node, what))})


def version(node: Node, what: str) -> str | None:
    return getattr(node.identity, what) if what in NAMES else node.identity.packages.get(what)


def versions_text(what: str, difference: Disagreement[str]) -> str:
    return together(
        f"{NAMES.get(what, what)} {wanted} on {together(n for n, its in difference.values.items() if its == wanted)}"
        for wanted in dict.fromkeys(difference.values.values())
    )


def line(node: Node, differences: Iterable[str]) -> str:
    shown = dict.fromkeys((*NAMES, *differences))
    return (
        f"{node.name}: {', '.join(f'{NAMES.get(what, what)} {its}' for what in shown if (its := version(node, what)))}"
    )


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
    for what, difference in differences.items():
        if what not in NAMES and "torch" not in differences:  # another environment differs in much else
            wrong = [node for node in cluster.nodes if node.name in difference.others]
            text = f"Install {what} {difference.usual} on all nodes."
            if what == EFA:
                yield Fix.on(wrong, text)
            else:
                commands = {node.name: pip_command(node, "install", f"{what}=={difference.usual}") for node in wrong}
                yield from fixes_by_command(wrong, text, commands)
