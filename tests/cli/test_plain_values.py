"""Tests of what is taken as it is, is what typer would have made of it; and typer complains of what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from distdoctor.cli.app import app
from distdoctor.cli.typer_patches import pass_by


def parsed(words: list[str], plain: bool) -> Any:
    """Return what becomes of each parameter, or the complaint."""
    command: Any = typer.main.get_command(app).commands[words[0]]  # type: ignore[attr-defined]
    if plain:
        pass_by(command)
    try:
        with command.make_context(words[0], words[1:]) as context:
            return {name: (type(value), value) for name, value in context.params.items()}
    except typer.TyperException as err:
        return type(err), err.format_message()


@pytest.mark.parametrize(
    "words",
    [
        ["check"],
        ["check", "--nnodes", "2", "--node-rank", "1", "--wait", "3.5", "--timeout", "7", "-vv", "--no-try-fixes"],
        ["check", "--ignore", "a/b", "--ignore", "c/*", "--checks", "{here}", "--checks", "{here}/none", "-o", "json"],
        ["check", "--baseline", "{here}/file", "--rdzv-id", "", "--master-port", "029500"],
        *(
            ["check", "--wait", text]
            for text in (".5", "5.", "1e3", "inf", "-1", "x", "", "1_0", "007", "1.2.3", "\u0663")
        ),
        *(["check", "--node-rank", text] for text in ("-1", "+1", "1.0", "1_0", "", "9" * 30, "\u0663")),
        *(["check", "--rdzv-id", text] for text in ("n\u00e4me", "\udcff")),
        ["diagnose"],
        ["diagnose", "{here}/file", "{here}", "-", "{here}/none"],
        ["explain"],
        ["run", "--", "torchrun", "--nnodes", "2", "train.py"],
    ],
)
def test_as_typer_takes_them(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    words = [word.format(here=tmp_path) for word in words]
    assert parsed(words, plain=True) == parsed(words, plain=False)


@pytest.mark.parametrize(
    "words", [["check", "--hostfile", ""], ["check", "--checks", ""], ["diagnose", "", "/dev/null"]]
)
def test_an_empty_name_is_refused_where_typer_takes_it_for_the_working_folder(words: list[str]) -> None:
    assert "the name is empty" in parsed(words, plain=True)[1]


def test_a_file_that_cannot_be_read_is_left_to_typer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its word of it comes before anything is begun. Root may read all, so the question is answered for it."""
    (tmp_path / "file").touch()
    monkeypatch.setattr("os.access", lambda *_: False)
    said = [parsed(["diagnose", str(tmp_path / "file")], plain=plain) for plain in (True, False)]
    assert said[0] == said[1] and "not readable" in said[0][1]
