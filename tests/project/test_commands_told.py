"""Each command line that README.md, CONTRIBUTING.md, docs/, --help and the pages of the checks tell can be parsed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from distdoctor.cli import help as help_texts
from distdoctor.cli.app import app
from distdoctor.cli.explain import is_message
from distdoctor.cli.parsing import COMMANDS, normalized
from distdoctor.model.stages import STAGES
from tests.facts_builder import CHECKS
from tests.helpers.namespaces import ROOT

PARSER: Any = typer.main.get_command(app)
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*/*"))]
TEXTS = {
    **{str(path.relative_to(ROOT)): path.read_text() for path in DOCUMENTS},
    "--help": help_texts.EXAMPLES,
    "check --help": help_texts.CHECK_EXAMPLES,
    "diagnose --help": help_texts.DIAGNOSE_EXAMPLES,
    "explain --help": help_texts.EXPLAIN_EXAMPLES,
    "hang --help": help_texts.HANG_EXAMPLES,
    "run --help": help_texts.RUN_EXAMPLES,
    **{check.id: check.page for check in CHECKS},
}
LINE = re.compile(rf'(?:`|^\s+|[\s/]|"\$)distdoctor"? ((?:{"|".join(COMMANDS)}|--version)\b[^`]*)')
END = re.compile(r"\s{2,}|\s*(?:&&|\|\||\d?>|[|;)#])|(?<=\w)[.,:](?:\s|$)|$")
"""End of a command line: a comment in the next column, another command, the rest of a sentence."""


def command_lines(text: str) -> Iterator[str]:
    """Those in back quotes, and those on lines of code: indented, or of a script."""
    whole = re.sub(r"\\\n\s*", "", text)
    for line in whole.splitlines():
        code = line.startswith("  ") or whole.startswith("#!")
        for found in LINE.finditer(line):
            if code or found.group().startswith("`"):
                yield found[1][: END.search(found[1]).start()]  # type: ignore[union-attr]


LINES = sorted({(name, line) for name, text in TEXTS.items() for line in command_lines(text)})


def test_there_are_such_lines_in_all_of_them() -> None:
    documents = {name for name in TEXTS if "/" not in name or name.startswith("docs/")}
    assert {name for name, _ in LINES} >= documents and len(LINES) > 40


@pytest.mark.parametrize(("where", "line"), LINES, ids=[f"{name}: {line}" for name, line in LINES])
def test_it_can_be_parsed(where: str, line: str) -> None:
    own, _, _of_the_job = line.partition(" -- ") if line.startswith("check ") else (line, "", "")
    words = normalized(shlex.split(re.sub(r"\$\w+", "1", own)))
    if words[0].startswith("-"):
        PARSER.make_context("distdoctor", words)
        return
    files = ["FILE"] if words == ["diagnose"] else []
    told = PARSER.commands[words[0]].make_context(words[0], [*words[1:], *files]).params
    meant = told.get("check_id")
    assert meant in (None, "ID", "MESSAGE", "-", *STAGES, *(check.id for check in CHECKS)) or is_message(meant), where
