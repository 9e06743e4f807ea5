"""Names of launchers' variables: spelled in one module, and read by all that looks at ranks."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from distdoctor.hang import jobs, snapshot
from distdoctor.model import launch_variables
from distdoctor.model.launch_settings import LOCAL_RANK, RANK, WORLD_SIZE
from distdoctor.model.launch_variables import RANK_VARIABLES, STARTED_BY, RankVariables

ROOT = Path(__file__).resolve().parents[2]
NAMES = {
    name
    for value in vars(launch_variables).values()
    for name in ([value] if isinstance(value, str) else value if isinstance(value, RankVariables) else [])
    if name.isupper() and "_" in name
}


def test_names_are_spelled_in_one_module() -> None:
    assert {"SLURM_STEP_ID", "OMPI_COMM_WORLD_RANK", "FLUX_TASK_RANK", "TORCHELASTIC_RUN_ID"} <= NAMES
    own = {ROOT / "distdoctor/model/launch_variables.py", ROOT / "distdoctor/model/launch_settings.py"}
    for path in {*ROOT.glob("distdoctor/**/*.py"), *ROOT.glob("checks/*/*.py")} - own:
        constants = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        assert not constants & NAMES, path


@pytest.mark.parametrize("launcher", RANK_VARIABLES, ids=lambda one: one.rank)
def test_ranks_of_every_launcher_are_known_while_they_run(launcher: RankVariables) -> None:
    env = {launcher.rank: "3", launcher.size: "8", launcher.local_rank: "1"}
    numbers = [snapshot._setting_number(env, setting) for setting in (RANK, WORLD_SIZE, LOCAL_RANK)]
    assert numbers == [3, 8, 1]
    assert launcher.rank in jobs.JOB_VARIABLES
    assert launcher.rank in STARTED_BY or launcher is launch_variables.SLURM
