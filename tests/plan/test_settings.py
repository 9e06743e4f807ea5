"""The table of launch settings: whole, consistent, and the only place that spells their names."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

import pytest

from distdoctor.model import launch_settings
from distdoctor.model.launch_settings import BY_NAME, SETTINGS, Setting
from distdoctor.model.plan import Plan
from distdoctor.plan.values import Flags

PACKAGE = Path(launch_settings.__file__).parents[1]
NAMES = {name for setting in SETTINGS for name in (setting.flag, *setting.all_variables) if name}
SPELLED_ELSEWHERE = {"probes": {"RANK", "WORLD_SIZE"}, "session": {"MASTER_ADDR"}}
"""By whom: what other processes have in their environment, and the reason why an address was taken, which is a fact."""

OTHER_PROGRAMS = ("plan/engine_lines.py", "plan/trainer_lines.py")
"""Modules with the options of other programs, some of which have torchrun's names."""


def test_each_flag_of_a_launch_is_there() -> None:
    assert {field.name for field in fields(Flags)} <= {setting.name for setting in SETTINGS if setting.flag}


def test_each_other_setting_is_a_field_of_the_plan() -> None:
    plan = {field.name for field in fields(Plan)}
    assert {name for name in BY_NAME if name not in plan} == {"rdzv_endpoint", "rdzv_id", "rdzv_conf", "standalone"}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_names_follow_from_each_other(setting: Setting) -> None:
    """argparse_util.py makes the variable of the flag."""
    assert setting.flag in ("", f"--{setting.name.replace('_', '-')}")
    assert setting.pet in ("", f"PET_{setting.name.upper()}")
    assert setting.slurm.startswith("SLURM_") or not setting.slurm


def test_no_name_is_two_settings() -> None:
    names = [name for setting in SETTINGS for name in (setting.flag, *setting.all_variables, setting.slurm) if name]
    assert len(names) == len(set(names))


def test_torchrun_has_these_flags_and_variables() -> None:
    run = pytest.importorskip("torch.distributed.run")
    known = {word for action in run.get_args_parser()._actions for word in action.option_strings}
    assert {setting.flag for setting in SETTINGS if setting.pet} <= known
    assert not known & {setting.flag for setting in SETTINGS if not setting.pet and setting.flag}


def test_nobody_else_spells_them() -> None:
    elsewhere = {}
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        spelled = {item.value for item in ast.walk(ast.parse(path.read_text())) if isinstance(item, ast.Constant)}
        found = (spelled & NAMES) - SPELLED_ELSEWHERE.get(name.partition("/")[0], set())
        if found and name not in ("model/launch_settings.py", *OTHER_PROGRAMS):
            elsewhere[name] = found
    assert elsewhere == {}
