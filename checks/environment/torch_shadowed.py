"""Python imports a file in place of a module that torch needs.

## What you see
The job's very first `import torch` fails on a module that has nothing to do with torch:

    ImportError: cannot import name 'Random' from 'random' (/home/me/job/random.py)
    AttributeError: module 'numpy' has no attribute 'ndarray'

With a folder or file called torch: `No module named 'torch.distributed'`, `Failed to load PyTorch C extensions`.

## Why it happens
Python searches the script's own folder first, then PYTHONPATH, and only then its own modules and the installed ones.
Every import of random, queue or numpy then gets the random.py, queue.py or numpy.py next to the script. A torch.py does
the same, and so does the folder torch of PyTorch's source if the job starts there.

## Fix
Rename the file and the job's imports of it, `mv random.py my_random.py`; or start the job from another folder, or
remove the folder from PYTHONPATH.

## Confirm with
`python -c "import random; print(random.__file__)"`, in the job's folder, prints a path of the Python installation.

## When it is harmless
distdoctor assumes that the script is in the working folder. If it is in another folder, or an installed command starts
the job, the file hides nothing from the job. Run distdoctor from the script's folder then.

## See also
environment/torch-missing, environment/torch-broken
"""

import re
import shlex
from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Node,
    Shadow,
    names_of,
    nodes_by_torch_cause,
    together,
    torch_error_evidence,
)

SEVERITY = "fail"
PREVENTS = "plan agreed"
LOOKS_AT = ("identity.torch",)
INSTALLED = re.compile(r"/(?:python\d(?:\.\d+)?|site-packages|dist-packages)(?:/|$)")
"""Folders of a Python and its packages: another one's, in which nothing is to be renamed."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = nodes_by_torch_cause(cluster, ["shadowed"]).get("shadowed")
    if not bad:
        return
    files = dict.fromkeys((shadow.file, shadow.module) for node in bad for shadow in shadows(node))
    hidden = together(f"{file} hides the {hidden_module(module)}" for file, module in files)
    yield Finding.about(
        bad,
        f"torch cannot be imported on {names_of(bad)}: {hidden}.",
        evidence=(
            text
            for node in bad
            for text in (torch_error_evidence(node), *(evidence_line(node, s) for s in shadows(node)))
        ),
        fixes=fixes(bad),
    )


def shadows(node: Node) -> tuple[Shadow, ...]:
    failure = node.identity.torch_failure
    return failure.shadows if failure else ()


def not_built(node: Node) -> bool:
    """Return whether it is PyTorch's source that lies there: it lacks what its build makes.

    Nothing is to be renamed in it."""
    failure = node.identity.torch_failure
    return failure is not None and failure.module in ("torch._C", "torch.version")


def hidden_module(module: str) -> str:
    return "installed torch" if module == "torch" else f"module {module} that torch needs"


def evidence_line(node: Node, shadow: Shadow) -> str:
    place = "the working folder" if shadow.by == "folder" else "a folder of PYTHONPATH"
    instead = f" in place of {shadow.hides}" if shadow.hides else ""
    return f"{node.name}: Python imports {shadow.module} from {shadow.file}, in {place}{instead}"


def fixes(bad: list[Node]) -> Iterator[Fix]:
    nodes_of: dict[Shadow, list[str]] = {}
    sources: set[Shadow] = set()
    for node in bad:
        for shadow in shadows(node):
            nodes_of.setdefault(shadow, []).append(node.name)
            if shadow.by == "folder" and shadow.module == "torch" and not_built(node):
                sources.add(shadow)
    for shadow, names in nodes_of.items():
        remedies = [renamed(shadow, names)]
        if shadow in sources:
            remedies.insert(0, change_folder_fix(shadow, names))
        if shadow.by == "PYTHONPATH":
            remedies.append(removed_from_pythonpath(shadow, names))
            if shadow.module == "torch" or INSTALLED.search(shadow.entry):
                remedies.reverse()
        for option, remedy in enumerate(remedies, start=1):
            yield Fix(remedy.text, remedy.nodes, option, env=remedy.env, commands=remedy.commands)


def renamed(shadow: Shadow, names: list[str]) -> Fix:
    folder, _, name = shadow.file.rpartition("/")
    other = f"{folder}/my_{name}"
    text = f"Rename {shadow.file} and the job's imports of it: Python takes it for the {hidden_module(shadow.module)}."
    return Fix(text, tuple(names), commands=(shlex.join(["mv", shadow.file, other]),))


def change_folder_fix(shadow: Shadow, names: list[str]) -> Fix:
    text = f"Start the job from another folder: {shadow.entry} holds the unbuilt source of PyTorch."
    return Fix(text, tuple(names))


def removed_from_pythonpath(shadow: Shadow, names: list[str]) -> Fix:
    text = f"Remove {shadow.entry} from PYTHONPATH."
    return Fix(text, tuple(names), env={"PYTHONPATH": shadow.pythonpath or None})
