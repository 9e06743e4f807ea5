"""The man page and the shells' completions are those of today's help, and readers of them take them."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest
import typer

from distdoctor.cli.app import app
from scripts import man_page

TEXT = man_page.PAGE.read_text()
PROGRAM: Any = typer.main.get_command(app)


def test_the_page_is_that_of_the_help_of_today() -> None:
    assert man_page.page() == TEXT, "make man"


@pytest.mark.parametrize("columns", [80, 120])
def test_the_help_that_is_kept_is_that_of_today(columns: int) -> None:
    """For a review of its wording; it is as wide on 120 columns."""
    shown = man_page.help_pages(columns)
    assert shown == {path: path.read_text() for path in man_page.HELP.iterdir()}, "make man"


def test_every_command_and_every_flag_that_is_told_is_there() -> None:
    plain = TEXT.replace("\\-", "-")
    for name, command in PROGRAM.commands.items():
        assert (f".SS distdoctor {name}\n" in plain) is not command.hidden
        for option in command.params:
            if not command.hidden and not getattr(option, "hidden", False) and option.param_type_name == "option":
                assert all(f"\\fB{flag}\\fR" in plain for flag in option.opts), (name, option.opts)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_nothing_to_say_against_it() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", str(man_page.PAGE)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    shown = re.sub(r"\x1b\[[\d;]*m|.\x08", "", done.stdout)
    assert "--master-addr HOST" in shown and "128+n  ended by signal n" in shown


@pytest.mark.parametrize("shell", man_page.COMPLETIONS)
def test_the_completions_are_those_that_the_program_gives(shell: str) -> None:
    kept = man_page.COMPLETIONS[shell].read_text()
    assert man_page.completion(shell) == kept, "make man"
    assert "_DISTDOCTOR_COMPLETE" in kept
    if found := shutil.which(shell):
        subprocess.run([found, "-n", str(man_page.COMPLETIONS[shell])], check=True)
