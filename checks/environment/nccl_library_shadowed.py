"""The loader takes another NCCL library than torch's own.

## What you see
`libtorch_cuda.so: undefined symbol: ncclCommRegister` (or another nccl name) on import.

## Why it happens
The loader finds an older libnccl.so.2 first: from LD_LIBRARY_PATH, LD_PRELOAD, conda or a second nvidia-nccl wheel
(cu12 and cu13).

## Fix
Remove the other NCCL from LD_LIBRARY_PATH and LD_PRELOAD, and keep one nvidia-nccl wheel: `env -u LD_LIBRARY_PATH -u
LD_PRELOAD python train.py`.

## Confirm with
`LD_DEBUG=libs python -c "import torch" 2>&1 | grep libnccl` shows torch's own library, and `pip list | grep nccl` shows
one wheel.

## When it is harmless
Never.

## See also
environment/torch-broken, environment/version-mismatch
"""

from collections.abc import Iterator
from shlex import join

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Line,
    Node,
    fixes_by_command,
    gpus,
    install_torch_command,
    names_of,
    nodes_by_torch_cause,
    pip_command,
    together,
    torch_error_evidence,
)

SEVERITY = "fail"
PREVENTS = "plan agreed"
LOOKS_AT = ("identity.torch",)
NEXT = ("the library that the loader takes", "LD_DEBUG=libs python -c 'import torch' 2>&1 | grep nccl")
LOG = (
    Line("undefined symbol: nccl", r"undefined symbol: (?P<symbol>nccl\w{1,60})"),
    Line(("NCCL library is too old", "NCCL library is not backwards compatible")),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = nodes_by_torch_cause(cluster, ["nccl"]).get("nccl")
    if not bad:
        return
    first = dict.fromkeys(library.name for node in bad if (library := shadow(node)))
    why = f"the loader takes {together(first)} as its NCCL" if first else "its NCCL is older"
    yield Finding.about(
        bad,
        f"torch cannot be imported on {names_of(bad)}: {why}.",
        evidence=(
            text for node in bad for text in (torch_error_evidence(node), *map(library_evidence, libraries(node)))
        ),
        fixes=fixes(cluster, bad),
    )


def libraries(node: Node) -> tuple[gpus.NcclLibrary, ...]:
    failure = node.identity.torch_failure
    return failure.nccl if failure else ()


def shadow(node: Node) -> gpus.NcclLibrary | None:
    """The library that a variable puts first."""
    return next((library for library in libraries(node) if library.by), None)


def packages(node: Node) -> list[str]:
    return [library.name for library in libraries(node) if not library.by]


def library_evidence(library: gpus.NcclLibrary) -> str:
    return f"{library.name} comes from {library.by}" if library.by else f"the package {library.name} is installed"


def fixes(cluster: Cluster, bad: list[Node]) -> Iterator[Fix]:
    again = []
    for node in bad:
        if shadowing := shadow(node):
            yield Fix.on(node, f"Remove {shadowing.name} from {shadowing.by}.", env={shadowing.by: shadowing.without})
        elif len(names := [name.partition(" ")[0] for name in packages(node)]) > 1:
            text = "Keep one of the two wheels: they have the same files, and the later one overwrote the other."
            commands = (pip_command(node, "uninstall", "-y", *names), reinstall(cluster, node))
            yield Fix.on(node, text, commands=filter(None, commands))
        else:
            again.append(node)
    text = "Reinstall torch, with the NCCL that it was built with."
    yield from fixes_by_command(again, text, {node.name: reinstall(cluster, node) for node in again})
    for python in dict.fromkeys(node.identity.executable or "python3" for node in bad):
        nodes = [node for node in bad if (node.identity.executable or "python3") == python]
        command = f"LD_DEBUG=libs {join([python, '-c', 'import torch'])} 2>&1 | grep libnccl"
        yield Fix.on(nodes, "Confirm with: the loader's own list of libraries.", 2, commands=(command,))


def reinstall(cluster: Cluster, node: Node) -> str:
    return install_torch_command(cluster, node, "--force-reinstall")
