"""environment/torch-missing: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import TorchFailure
from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.torch_import import HIDDEN, no_torch, torch_fails
from tests.facts_builder import judged

CHECK = "environment/torch-missing"


ROWS = [
    Row("torch missing on node 1", lambda: no_torch(1), ("host1",), together=True),
    Row("torch missing on node 0", lambda: no_torch(0), ("host0",)),
]

LOOK_ALIKES = [LookAlike("hidden by a file", lambda: torch_fails(HIDDEN), "environment/torch-shadowed")]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_one_that_is_not_installed_is_installed_as_on_the_others() -> None:
    failure = TorchFailure("ModuleNotFoundError", "No module named 'torch'", "torch", looked=True)
    (found,) = judged(*torch_fails(failure)).roots
    assert found.check == CHECK and "/opt/py/bin/python3" in found.summary
    assert found.fixes[1].commands == ("/opt/py/bin/python3 -m pip install torch==2.13.0",)


def test_what_nobody_knows_yet_is_not_missing() -> None:
    """Interrupted while torch was being imported."""
    a, b = no_torch(1)
    b = replace(b, identity=replace(b.identity, torch_error=None, torch_importing=True, torch_seconds=2.0))
    assert not any("torch" in f.check for f in judged(a, b).findings)
