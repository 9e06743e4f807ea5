"""environment/torch-shadowed: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.torch_import import HIDDEN, SHADOW, no_torch, torch_fails, torch_root

CHECK = "environment/torch-shadowed"


ROWS = [
    Row("torch hidden on node 1", lambda: torch_fails(HIDDEN), ("host1",), together=True),
    Row("torch hidden on node 0", lambda: torch_fails(HIDDEN, which=0), ("host0",)),
]

LOOK_ALIKES = [LookAlike("not installed", lambda: no_torch(1), "environment/torch-missing")]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_a_folder_of_pythonpath_can_be_taken_out_of_it() -> None:
    shadow = replace(SHADOW, file="/other/torch", module="torch", entry="/other", by="PYTHONPATH", pythonpath="/rest")
    found = torch_root(replace(HIDDEN, shadows=(shadow,)), 1)
    assert [(fix.option, fix.env, fix.commands) for fix in found.fixes] == [
        (1, {"PYTHONPATH": "/rest"}, ()),
        (2, {}, ("mv /other/torch /other/my_torch",)),
    ]


def test_nothing_is_renamed_in_another_python() -> None:
    entry = "/usr/lib/python3.12"
    shadow = replace(SHADOW, file=f"{entry}/ctypes", module="ctypes", entry=entry, by="PYTHONPATH", pythonpath="/rest")
    first = torch_root(replace(HIDDEN, shadows=(shadow,)), 1).fixes[0]
    assert (first.option, first.env, first.commands) == (1, {"PYTHONPATH": "/rest"}, ())


def test_a_job_is_not_started_from_the_source_of_torch() -> None:
    shadow = replace(SHADOW, file="/src/pytorch/torch", module="torch", hides="/site/torch", entry="/src/pytorch")
    found = torch_root(replace(HIDDEN, module="torch.version", shadows=(shadow,)), 1)
    assert [(fix.option, fix.commands) for fix in found.fixes] == [
        (1, ()),
        (2, ("mv /src/pytorch/torch /src/pytorch/my_torch",)),
    ]
    assert "from another folder: /src/pytorch" in found.fixes[0].text
