"""Tests of how the doctor and torchrun are started here, as the lines to paste have it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.commands import environment

PRINT = "import shlex; from distdoctor.cli import program; print(shlex.join(program.torchrun()))"


def printed_with_path(path: str) -> str:
    done = subprocess.run(
        [sys.executable, "-S", "-c", PRINT], capture_output=True, text=True, env=environment(PATH=path), check=True
    )
    return done.stdout.strip()


def command(folder: Path, python: str) -> str:
    """A PATH with a torchrun that this Python starts, as pip writes it."""
    file = folder / "torchrun"
    file.write_text(f"#!{python}\nimport sys\nfrom torch.distributed.run import main\n")
    file.chmod(0o755)
    return f"/usr/bin:/bin:{folder}"


def test_this_pythons_torchrun_is_on_the_path(tmp_path: Path) -> None:
    assert printed_with_path(command(tmp_path, sys.executable)) == "torchrun"


@pytest.mark.parametrize("python", [None, "/opt/another/bin/python3"])
def test_it_is_not_there_or_another_pythons(tmp_path: Path, python: str | None) -> None:
    line = printed_with_path(command(tmp_path, python) if python else "/usr/bin:/bin")
    assert line == f"{sys.executable} -m torch.distributed.run"


def test_a_python_that_the_path_leads_to_is_called_by_its_name(tmp_path: Path) -> None:
    here = Path(sys.executable)
    assert printed_with_path(f"{here.parent}:/usr/bin:/bin").split()[0] in (here.name, "torchrun")
