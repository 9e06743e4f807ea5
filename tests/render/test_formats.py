"""The output formats: one table, from which all comes that names them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from distdoctor.cli.app import run
from distdoctor.render.formats import FORMATS
from distdoctor.render.style import Style
from tests.render import reports


@pytest.mark.parametrize("name", FORMATS)
def test_each_renders_each_report(name: str) -> None:
    for make in (reports.healthy, reports.loopback, reports.missing, reports.hostile):
        told = FORMATS[name](make(), Style(width=80, verbose=1))
        assert told.endswith("\n")


@pytest.mark.parametrize("command", ["check", "diagnose"])
def test_help_names_them(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in FORMATS)


def test_the_one_meant_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "-o", "zzz"]) == 2
    assert f"one of {', '.join(FORMATS)}" in capsys.readouterr().err


def test_naming_them_imports_no_renderer() -> None:
    code = "import sys, distdoctor.cli.app; sys.exit('distdoctor.render.text' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
