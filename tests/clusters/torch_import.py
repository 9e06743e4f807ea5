"""Clusters with a node whose torch is missing or cannot be imported."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import Shadow, TorchFailure
from distdoctor.model.findings import Finding
from tests.checks.row import Facts
from tests.facts_builder import alone, failing, healthy, judged, outside, with_meeting, with_network


def no_torch(which: int) -> Facts:
    a, b = healthy(2, declared=True)
    if which == 1:
        b = replace(b, identity=replace(b.identity, torch=None, torch_error="No module named 'torch'"))
        return (failing(a, "store", "Wait timeout"), replace(b, ranks=()))
    a = replace(a, identity=replace(a.identity, torch=None, torch_error="No module named 'torch'"))
    a = with_meeting(with_network(alone(a), bind=None), joined=False, ours=None, hosted=False, ended=True)
    return a, outside(b)


def torch_fails(failure: TorchFailure, error: str = "", which: int = 1) -> Facts:
    """Node ``which`` of two has a torch that cannot be imported."""
    nodes = list(no_torch(which))
    identity = replace(nodes[which].identity, torch_error=error or f"{failure.type}: {failure.text}")
    nodes[which] = replace(
        nodes[which], identity=replace(identity, torch_failure=failure, executable="/opt/py/bin/python3")
    )
    return tuple(nodes)


SHADOW = Shadow("random", "/job/random.py", "/usr/lib/python3.11/random.py", "/job")

HIDDEN = TorchFailure(
    "ImportError", "cannot import name 'Random'", "random", found="/site/torch", looked=True, shadows=(SHADOW,)
)

NO_CUDA = TorchFailure(
    "ImportError",
    "libcudart.so.12: cannot open shared object file: No such file or directory",
    found="/site/torch",
    looked=True,
)


def torch_root(failure: TorchFailure, which: int) -> Finding:
    found = judged(*torch_fails(failure, "the process ended" if not failure.type else "", which=which))
    (one,) = (f for f in found.roots if f.check.startswith("environment/torch"))
    assert not any(f.check == "environment/torch-missing" for f in found.findings)
    return one
