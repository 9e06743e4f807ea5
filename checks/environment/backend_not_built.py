"""This build of torch lacks the planned backend.

## What you see
init_process_group() raises at once

    RuntimeError: Distributed package doesn't have NCCL built in

(or MPI, XCCL). For UCC it raises an AssertionError without a message. Nodes whose torch has the backend wait for the
others.

## Why it happens
A CPU build of torch (`2.7.0+cpu`) has gloo only, and so have the builds for macOS and Windows. pip installs a CPU build
when the index, the platform or the Python version has no other. Only builds from source have MPI.

## Fix
Install a build that has the backend, the same on every node: `pip install torch --index-url
https://download.pytorch.org/whl/cu128`; or use gloo.

## Confirm with
`python -c "import torch.distributed as d; print(d.is_nccl_available())"` prints True on every node.

## When it is harmless
Never for a script that names this backend.

## See also
environment/version-mismatch, environment/torch-missing, gpu/fewer-than-ranks
"""

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Iterator,
    Line,
    Node,
    fixes_by_command,
    gpus,
    install_torch_command,
    names_of,
    together,
)

SEVERITY = "fail"
NONE_BUILT = "This torch is built without torch.distributed"
ONE_THAT_HAS_IT = (
    "Install a build of torch with torch.distributed, the same on every node: PyTorch's own builds for Linux have it; "
    "a build from source needs USE_DISTRIBUTED=1."
)
LOG = (
    Line("Distributed package doesn", r"doesn.?t have (?P<backend>\w+) built in"),
    Line("backend is not available", r"\b(?P<backend>\w{1,40}) backend is not available. Check '?\w*if"),
    Line(
        "Unknown c10d backend type",
        r"Unknown c10d backend type (?P<backend>\w+)",
        told="torch knows no backend of this name",
        fix="Import the package that registers the backend before init_process_group(), or install a build of torch "
        "that has it.",
    ),
    Line(
        ("PyTorch built without distributed support", "Requires distributed package to be available"),
        told=NONE_BUILT,
        fix=ONE_THAT_HAS_IT,
    ),
    Line(
        "'torch.distributed' has no attribute",  # of what every build with it has
        r"has no attribute '(?:init_process_group|is_initialized|get_rank|get_world_size|ReduceOp|all_reduce|barrier)'",
        unless="partially initialized",
        told=NONE_BUILT,
        fix=ONE_THAT_HAS_IT,
    ),
)
PREVENTS = "all met"
LOOKS_AT = ("identity.torch",)
BUILT_IN = ("gloo", "nccl", "mpi", "ucc", "xccl")
"""Backends that torch itself can be built with; others come from packages that register them when they are imported."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    lacking = {node: names for node in cluster.nodes if (names := lacks(node))}
    if not lacking:
        return
    wanted = together(dict.fromkeys(name for missing in lacking.values() for name in missing))
    yield Finding.about(
        lacking,
        f"torch on {names_of(lacking)} is built without {wanted}, which the job plans to use.",
        evidence=map(evidence, lacking),
        fixes=fixes(cluster, list(lacking)),
    )


def lacks(node: Node) -> tuple[str, ...]:
    """The backends that the plan names and the build lacks; ``auto`` names none."""
    built = node.identity.backends
    if node.plan.backend == "auto" or not built:
        return ()
    return tuple(name for name in node.plan.backends(gpus=False) if name in BUILT_IN and name not in built)


def evidence(node: Node) -> str:
    identity = node.identity
    built = f"torch {identity.torch} ({f'CUDA {identity.cuda}' if identity.cuda else 'no CUDA'})"
    return f"{node.name}: --backend {node.plan.backend}; {built} has {together(identity.backends)}"


def fixes(cluster: Cluster, bad: list[Node]) -> tuple[Fix, ...]:
    rest = (node for node in cluster.nodes if node not in bad and node.identity.backends and node.identity.torch)
    good, everyone = next(rest, None), cluster.nodes
    if good is not None and good.identity.torch:
        commands = {node.name: install_torch_command(cluster, node, version=good.identity.torch) for node in bad}
        return (
            *fixes_by_command(bad, f"Install the build of torch that {good.name} has.", commands),
            Fix.on(everyone, "Or use gloo, on every node.", 2, flags={"--backend": "gloo"}),
        )
    kinds = {gpus.build_for(node) for node in bad if "nccl" in lacks(node)} - {""}
    if len(kinds) == 1:  # the GPUs are there
        text = f"Install a build of torch with {kinds.pop()}, the same on every node (https://pytorch.org/get-started)."
        return (Fix.on(everyone, text), Fix.on(everyone, "Or use gloo, on CPUs.", 2, flags={"--backend": "gloo"}))
    return (
        Fix.on(everyone, "Use gloo on every node: backend='gloo' in the script.", flags={"--backend": "gloo"}),
        Fix.on(everyone, "Or install a build of torch that has the backend, the same on every node.", 2),
    )
