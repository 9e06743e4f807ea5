"""One vocabulary: words that pages and messages of checks do not use (the right column of the project's word list)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "checks"
CLEAN = (
    "environment",
    "launch",
    "host",
    "network",
    "store",
    "mesh",
    "gloo",
    "nccl",
    "gpu",
    "barrier",
    "collective",
    "process",
)
"""The stages whose checks keep to the words; test_pages.py asks more of the pages of these, too."""
LONGEST = 25
"""Words of a sentence."""
WORDS = {
    r"mend(?:s|ed|ing)?|cures?": "fix",
    r"astray": "take a wrong route",
    r"came|comes? (?:here|to (?:it|them|node))": "join, arrive",
    r"(?:the )?ladder|climbs?": "stages run",
    r"told|tells? (?:of|more|nothing)": "report, print, set",
    r"of its like|its like|their like": "peers, the other GPUs",
    r"(?:for )?want of": "out of, missing",
    r"anew": "recreate, restart",
    r"elsewhere": "another host, port or file",
    r"beside": "next to",
    r"gets? through|gets? there|gets? by": "reach, pass",
    r"nobody": "no host, no process",
    r"somebody|someone": "a host, a process",
    r"hands? out": "assign",
    r"leads? nowhere": "is unreachable",
    r"made of|makes? up|makes? its": "create, generate",
    r"participants?": "rank",
    r"starter": "launcher",
    r"whose own word|own word": "report",
    r"no way to|way back|on the way": "route",
    r"where (?:that|this|it) is (?:not )?(?:so|refused)": "if",
    r"all the same": "still",
    r"take[ns]? (?:\w+ )?(?:away|off)": "remove",
    r"look whether|see whether|see to": "Confirm with: COMMAND",
    r"by luck": "the reason that it runs",
}
"""Expression -> the word to use."""
EXCEPTIONS: dict[str, dict[str, str]] = {
    "host/cache_unwritable": {"nobody": "the user that NFS maps root to"},
    "host/shared_dir_differs": {"nobody": "the user that NFS maps root to"},
}
"""Check -> word that is right there -> the reason."""
each = pytest.mark.parametrize("path", [path for stage in CLEAN for path in sorted((ROOT / stage).glob("*.py"))])
_UNUSED = re.compile("|".join(rf"\b(?:{words})\b" for words in WORDS), re.IGNORECASE)


def texts(path: Path) -> Iterator[str]:
    """The page and every text of the file that is a message: more than one word, and not an expression of LOG."""
    tree = ast.parse(path.read_text())
    yield re.sub(r"(?s)^## See also\n.*", "", ast.get_docstring(tree) or "", flags=re.MULTILINE)
    patterns = {id(part) for call in ast.walk(tree) if _is_line(call) for part in _patterns(call)}
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in patterns or id(node) in docstrings or id(node) in parts:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.value


def _is_line(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Line", "compile")


def _patterns(call: ast.AST) -> Iterator[ast.AST]:
    """The words of a log that a Line looks for: all but its texts for people."""
    assert isinstance(call, ast.Call)
    for argument in call.args:
        yield from ast.walk(argument)
    for keyword in call.keywords:
        if keyword.arg not in ("told", "fix", "why"):
            yield from ast.walk(keyword.value)


@each
def test_words_are_those_of_the_vocabulary(path: Path) -> None:
    allowed = EXCEPTIONS.get(f"{path.parent.name}/{path.stem}", {})
    used = [
        (match[0], text)
        for text in texts(path)
        for match in _UNUSED.finditer(re.sub(r"`[^`]*`", "`", text))
        if match[0].lower() not in allowed
    ]
    assert not used


def sentences(page: str) -> Iterator[str]:
    """The sentences of a page, its code and the quoted output of programs left out."""
    for block in re.split(r"\n\s*\n", page):
        lines = block.splitlines()
        heading = lines.pop(0) if lines and lines[0].startswith("## ") else ""
        if heading == "## See also":
            continue
        if not any(line.startswith("    ") for line in lines):
            yield from re.split(r"(?<=[.?!])\s+", re.sub(r"`[^`]*`", "`", " ".join(lines)))


@each
def test_sentences_are_short(path: Path) -> None:
    """Those of the page, and those of summaries, fixes and other messages, a value counted as one word."""
    page, *messages = texts(path)
    long = [one for text in (page, *messages) for one in sentences(text) if len(one.split()) > LONGEST]
    assert [one for one in long if not re.search(r"\|.*\|", one)] == [], "with bars: an expression, not a sentence"


def test_an_old_word_and_a_long_sentence_are_found(tmp_path: Path) -> None:
    check = tmp_path / "check.py"
    check.write_text('"""A title.\n\n## Fix\nMend it.\n"""\nLOG = (Line("told by a log", told="The rank came"),)\n')
    assert [match[0] for text in texts(check) for match in _UNUSED.finditer(text)] == ["Mend", "came"]
    assert len([one for one in sentences("It " + "is " * 30 + "long. It is not.") if len(one.split()) > LONGEST]) == 1
