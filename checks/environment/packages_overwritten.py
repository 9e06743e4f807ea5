"""Two packages of this Python install the same library in different versions.

## What you see
`undefined symbol: ncclCommResume` on import. Or nothing: `pip show` names a version that the job does not load, and a
hang that the newer one has fixed comes back.

## Why it happens
The wheels of one library for different versions of CUDA (nvidia-nccl-cu12 and nvidia-nccl-cu13) have the same file:
`nvidia/nccl/lib/libnccl.so.2`. The one that was installed last overwrote the other, and no installer reports it. So
nodes with equal lists of packages load different libraries.

## Fix
Uninstall both and install the one that torch requires: `pip uninstall -y nvidia-nccl-cu12 nvidia-nccl-cu13`, then
`pip install --force-reinstall --no-deps nvidia-nccl-cu13==2.28.9`.

## Confirm with
`pip list | grep -E 'nccl|nvshmem'` shows one package of each library.

## When it is harmless
When the library that torch requires was installed last.

## See also
environment/nccl-library-shadowed, environment/version-mismatch
"""

import re

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, names_of, pip_command, together

SEVERITY = "warn"
MATTERS = "which of the two is loaded depends on the order of installation"
PREVENTS = "nccl group formed"
LOOKS_AT = ("identity.packages",)
SAME_FILES = re.compile(r"(nvidia-(?:nccl|nvshmem))-cu(\d+)")
"""Packages whose files do not depend on the version of CUDA in their names.

Seen by users: pytorch issue 186591 (cu12 2.29.3 beside cu13 2.29.7), marin issue 7344 (cu13 2.30.7 listed, cu12 2.28.9
loaded)."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    affected = {node: its for node in cluster.nodes if (its := overwritten(node))}
    if not affected:
        return
    yield Finding.about(
        list(affected),
        f"{together(dict.fromkeys(name for its in affected.values() for name in its))} install the same file in "
        f"different versions on {names_of(list(affected))}.",
        evidence=(
            f"{node.name}: {together(f'{name} {version}' for name, version in its.items())}{loaded(node)}"
            for node, its in affected.items()
        ),
        fixes=fixes(affected),
    )


def overwritten(node: Node) -> dict[str, str]:
    """Return the packages of which one overwrote another of a different version, with their versions."""
    by_library: dict[str, dict[str, str]] = {}
    for name, version in node.identity.packages.items():
        if match := SAME_FILES.fullmatch(name):
            by_library.setdefault(match[1], {})[name] = version
    differing = (its for its in by_library.values() if len(set(its.values())) > 1)
    return {name: version for its in differing for name, version in its.items()}


def loaded(node: Node) -> str:
    return f"; torch loads NCCL {node.identity.nccl}" if node.identity.nccl else ""


def fixes(affected: dict[Node, dict[str, str]]) -> Iterator[Fix]:
    for node, packages in affected.items():
        kept = {name: version for name, version in packages.items() if cuda_of(name) == built_for(node)}
        again = pip_command(node, "install", "--force-reinstall", "--no-deps", *(f"{n}=={v}" for n, v in kept.items()))
        text = f"Keep the packages for CUDA {built_for(node)} alone." if kept else "Uninstall one of the packages."
        remove = pip_command(node, "uninstall", "-y", *(name for name in packages if name not in kept))
        yield Fix.on([node], text, commands=(remove, again) if kept else ())


def cuda_of(package: str) -> str:
    return package.rpartition("-cu")[2]


def built_for(node: Node) -> str:
    """Return the major version of CUDA that torch was built for; empty if it is not known."""
    return (node.identity.cuda or "").partition(".")[0]
