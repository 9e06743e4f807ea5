"""The plan of every public start line, or the sentence that says why it has none."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from distdoctor.plan.job_command import JobLine, read_job_command
from tests.plan.start_scripts import SCRIPTS, Script


def shown(line: JobLine) -> str:
    """The plan in the form of the table."""
    flags = dict(flag.removeprefix("--").partition("=")[::2] for flag in line.flags)
    if not flags:
        return ""
    parts = [f"{flags['nnodes']}x{flags.get('nproc-per-node', '?')}"]
    parts += [f"#{flags['node-rank']}"] if "node-rank" in flags else []
    place = flags.get("rdzv-endpoint") or ":".join(
        flags[name] for name in ("master-addr", "master-port") if name in flags
    )
    alone = flags["nnodes"] == "1" and "rdzv-endpoint" not in flags
    parts += [place] if place and not alone else []
    return " ".join([*parts, *(f"{name}={size}" for name, size in line.mesh)])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: one.source[:60])
def test_the_plan_of_a_public_start_line(script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in script.files.items():
        (tmp_path / name).write_text(text)
    line = read_job_command(shlex.split(script.line), {"HOME": "/nowhere", **script.env})
    assert (shown(line), " ".join(line.before)) == (script.plan, script.before), line
    assert script.said in line.note if script.said else not line.note, line
