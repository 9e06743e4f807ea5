"""Tests of what can be looked up: help, pages, versions, and what a shell completes."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from distdoctor import __version__
from distdoctor.cli.app import run
from distdoctor.cli.explain import write_page
from distdoctor.cli.options import OPTIONS, HangFlags, JobFlags, ReportFlags, RunFlags
from distdoctor.cli.parsing import COMMANDS, nearest
from distdoctor.cli.program import versions
from distdoctor.judge.catalog import Check
from distdoctor.model.stages import STAGES
from distdoctor.render.formats import FORMATS
from distdoctor.render.page import Page
from tests.facts_builder import CHECKS
from tests.helpers.commands import doctor, environment

IDS = [check.id for check in CHECKS]


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(arguments) == 0
    return capsys.readouterr().out


class TestHelp:
    def test_help_is_a_command_too(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert output_of(capsys, "help") == output_of(capsys, "--help")
        assert output_of(capsys, "help", "check") == output_of(capsys, "check", "--help")
        assert run(["help", "chek"]) == 2
        assert "did you mean check?" in capsys.readouterr().err

    def test_check_names_its_stages_in_order(self, capsys: pytest.CaptureFixture[str]) -> None:
        lines = output_of(capsys, "check", "--help").splitlines()
        named = [line.split()[0] for line in lines if re.match(r"    [a-z]+ +\S", line)]
        assert named[: len(STAGES)] == list(STAGES)
        assert "Without a GPU, a check of one node starts two ranks" in " ".join(" ".join(lines).split())

    @pytest.mark.parametrize("columns", [60, 80])
    @pytest.mark.parametrize("command", ["", *COMMANDS])
    def test_it_fits_a_terminal(
        self, command: str, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = output_of(capsys, *command.split(), "--help").splitlines()
        long = [line for line in lines if len(line) > columns]
        # A command stays whole, to be copied.
        assert [line for line in long if columns == 80 or not re.match(r"    (distdoctor|torchrun) ", line)] == []
        assert [line for line in lines if "list[" in line] == []

    def test_on_a_narrow_terminal_a_line_is_explained_below_it(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "60")
        assert "\n    distdoctor hang\n        the job on this node\n" in output_of(capsys, "hang", "--help")

    @pytest.mark.parametrize("kind", [RunFlags, HangFlags, ReportFlags, JobFlags])
    def test_what_a_flag_is_unless_given_is_told(self, kind: Any) -> None:
        told = {f.name: f.default for f in fields(kind) if isinstance(f.default, (str, float))}
        assert told and all(
            OPTIONS[name].help.endswith(f"[{value:g}s]" if isinstance(value, float) else f"[{value}]")
            for name, value in told.items()
        )


class TestVersion:
    def test_with_python_torch_and_paths(self) -> None:
        """torch is looked for and not imported: as quick as --help, also where importing it fails."""
        done = doctor("--version", "-v")
        lines = done.stdout.splitlines()
        assert lines[0].split() == ["distdoctor", __version__, str(Path(__file__).resolve().parents[2] / "distdoctor")]
        assert f"Python {platform.python_version()}  {sys.executable}" in lines
        assert any(line.startswith("torch ") for line in lines)

    def test_the_torch_of_pythonpath_comes_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "torch").mkdir()
        (tmp_path / "torch/__init__.py").write_text("raise SystemExit('imported')")
        (tmp_path / "torch/version.py").write_text("__version__ = '9.8.7+mine'\n")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        assert f"torch 9.8.7+mine  {tmp_path / 'torch'}\n" in versions(verbose=True)
        (tmp_path / "torch/version.py").unlink()
        assert f"torch of unknown version  {tmp_path / 'torch'}\n" in versions(verbose=True)

    def test_v_stands_behind_the_command(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["-v", "check"]) == 2
        assert capsys.readouterr().err == "distdoctor: -v goes after the command: distdoctor check -v\n"


class TestExplain:
    def test_without_an_id_it_points_to_the_list(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["explain"]) == 2
        assert "distdoctor list shows all" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("wrong", "near"),
        [
            ("gloo/loopbak", "gloo/loopback-address"),
            ("loopback", "gloo/loopback-address or host/hostname-loopback"),
            ("mesh/xx", "mesh/connection-loss, mesh/mtu-blackhole or mesh/node-isolated"),
        ],
    )
    def test_the_nearest_ids(self, wrong: str, near: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert nearest(wrong, IDS) == f"; did you mean {near}?"
        assert run(["explain", wrong]) == 2
        assert near in capsys.readouterr().err
        assert nearest("zzzz", IDS) == ""

    @pytest.mark.parametrize("width", [60, 80, 120])
    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
    def test_pages_break_at_words_and_keep_what_is_pasted(self, check: Check, width: int) -> None:
        text = check.page
        page = Page(width)
        write_page(page, text)
        shown = page.plain()
        assert shown.split() == text.split()
        kept = [line.rstrip() for line in text.splitlines() if line.startswith(" ")]
        assert [line for line in shown.splitlines() if line.startswith(" ")] == kept
        for command in re.findall(r"`[^`\n]+`", re.sub(r"(?<=\S)\n(?=\S)", " ", text)):
            assert command in shown, command
        long = [line for line in shown.splitlines() if len(line) > width and line not in kept and "`" not in line]
        assert long == [] or all(" " not in line for line in long)


class TestCompletion:
    """The script that the shell gets, run by a real bash."""

    SCRIPT = (
        'eval "$(distdoctor --show-completion bash)"\n'
        'words=("$@"); COMP_WORDS=("${words[@]}"); COMP_CWORD=$((${#words[@]}-1))\n'
        '_distdoctor_completion distdoctor; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )

    @pytest.mark.parametrize(
        ("words", "offered"),
        [
            (["check", "--until", ""], list(STAGES)),
            (["check", "--until", "b"], ["barrier"]),
            (["explain", "gloo/lo"], ["gloo/loopback-address"]),
            (["check", "--ignore", "mesh/"], [check for check in IDS if check.startswith("mesh/")]),
            (["diagnose", "-o", ""], list(FORMATS)),
            (["check", "--master-"], ["--master-addr", "--master-port"]),
            (["help", "di"], ["diagnose"]),
        ],
    )
    def test_in_bash(self, words: list[str], offered: list[str], tmp_path: Path) -> None:
        command = tmp_path / "distdoctor"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m distdoctor "$@"\n')
        command.chmod(0o755)
        done = subprocess.run(
            ["bash", "-c", self.SCRIPT, "-", "distdoctor", *words],
            capture_output=True,
            text=True,
            env=environment(PATH=f"{tmp_path}:{os.environ['PATH']}"),
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.split() == offered

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_the_script_is_printed(self, shell: str) -> None:
        done = doctor("--show-completion", shell)
        assert (done.returncode, done.stderr) == (0, "")
        assert "_DISTDOCTOR_COMPLETE" in done.stdout
