"""The table of stages: what is read from it, and that nothing else knows a stage by its name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from distdoctor.model.stages import (
    ALL_STAGES,
    ALONE,
    BARRIER,
    BY_NAME,
    COLLECTIVE,
    GLOO,
    MESH,
    NCCL,
    STAGES,
    STORE,
    TRIAL,
    Stage,
    needs_torch,
    opened_up_to,
    required_stages,
    spoken,
)

PACKAGE = Path(__file__).resolve().parents[2] / "distdoctor"


@pytest.mark.parametrize("stage", ALL_STAGES, ids=lambda stage: stage.name)
def test_a_stage_needs_only_what_is_climbed_before_it(stage: Stage) -> None:
    assert required_stages(stage) <= set(STAGES[: STAGES.index(stage.name)])


def test_every_stage_that_node_0_opens_has_an_end() -> None:
    assert all(stage.seconds for stage in (*ALL_STAGES, TRIAL) if stage.opened)


def test_those_climbed_alone_come_first() -> None:
    assert STAGES[: len(ALONE)] == ALONE
    assert [stage.name for stage in opened_up_to(STAGES[-1])] == list(STAGES[len(ALONE) :])


def test_torch_is_needed_from_the_meeting_on() -> None:
    assert [stage for stage in STAGES if not needs_torch(stage)] == list(ALONE)
    assert [stage.name for stage in opened_up_to("mesh")] == ["store", "mesh"]


def test_one_backend_that_fails_does_not_keep_the_other_from_being_tried() -> None:
    assert required_stages(NCCL) == required_stages(GLOO) == {"network", "store", "mesh"}
    assert required_stages(BARRIER) > {"gloo", "nccl"} and required_stages(COLLECTIVE) > required_stages(BARRIER)


def test_what_links_the_mesh_measures_is_no_error_that_ends_it_everywhere() -> None:
    assert [stage for stage in ALL_STAGES if not stage.ends_everywhere] == [MESH]
    assert [stage for stage in ALL_STAGES if stage.links] == [MESH]
    assert STORE.doomed_seconds is not None and MESH.doomed_seconds is None


def test_names_in_a_sentence() -> None:
    assert [spoken(name) for name in ("gloo", "barrier", "no stage")] == ["gloo init", "barrier", "no stage"]


@pytest.mark.parametrize("package", ["session", "judge", "render", "cli", "mesh"])
def test_no_other_module_asks_for_a_stage_by_name(package: str) -> None:
    """A stage's properties stand in its row; a module that asks for a name would have to know the next stage, too."""
    for path in sorted((PACKAGE / package).glob("*.py")):
        for item in ast.walk(ast.parse(path.read_text())):
            if isinstance(item, ast.Compare) and all(isinstance(op, ast.Eq | ast.NotEq) for op in item.ops):
                named = {one.value for one in (item.left, *item.comparators) if isinstance(one, ast.Constant)}
                assert not named & set(BY_NAME), f"{path.name}:{item.lineno}"
