"""Simple commands in the text of a shell, with the variables that it sets: enough to find the start line of a job."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

MAX_BYTES = 1 << 16
_UNKNOWN = "\x00"
"""Stands for what only the shell can compute; it becomes ``$?``."""
_OPERATORS = re.compile(r"[;&|()<>]+")
_WORDS = ("if", "then", "else", "elif", "while", "do", "until", "exec", "time", "!", "{", "eval", "command")
_REFERENCE = re.compile(r"\$\{(\w+)(?::?-([^}]*))?\}|\$(\w+)")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.S)


class Command(NamedTuple):
    """One command, and the variables that the text has set for it."""

    words: list[str]
    env: dict[str, str]


def commands(text: str, env: Mapping[str, str]) -> Iterator[Command]:
    """Yield the simple commands. A variable that nothing here sets stays as it is written, ``$NAME``.

    Branches and loops are not followed: each of their commands is yielded once.
    """
    exported: dict[str, str] = {}
    known = {**env}
    for line in _logical_lines(text):
        for words in _simple(line):
            own = _leading_assignments(words, known)
            if words[:1] in (["export"], ["declare"], ["local"], ["readonly"]):
                names = _declared(words[1:], known)
                exported.update({name: known[name] for name in names if words[0] == "export" and name in known})
            elif words:
                yield Command([expanded(token, known) for token in words], {**exported, **own})
            else:
                known.update(own)
                exported.update({name: value for name, value in own.items() if name in exported})


def _leading_assignments(words: list[str], known: Mapping[str, str]) -> dict[str, str]:
    """Take the shell's own words and assignments from the start of ``words``; return the assigned variables."""
    own: dict[str, str] = {}
    while words and (words[0] in _WORDS or _ASSIGNMENT.fullmatch(words[0])):
        if match := _ASSIGNMENT.fullmatch(words.pop(0)):
            own[match[1]] = expanded(match[2], {**known, **own})
    return own


def _declared(words: list[str], known: dict[str, str]) -> list[str]:
    """Set the variables that ``NAME`` and ``NAME=VALUE`` declare in ``known``; return all their names."""
    names = []
    for word in words:
        name, equals, value = word.partition("=")
        names.append(name)
        if equals:
            known[name] = expanded(value, known)
    return names


def expanded(text: str, known: Mapping[str, str]) -> str:
    """Return the text with the variables that are known, or have a default."""

    def value(match: re.Match[str]) -> str:
        name, default = match[1] or match[3], match[2]
        return known.get(name) or (match[0] if default is None else expanded(default, known))

    return _REFERENCE.sub(value, text)


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines that are whole: continued ones and open quotes joined, substitutions replaced."""
    held = ""
    for line in _without_substitutions(text.replace("\\\n", " ")).splitlines():
        held = f"{held}\n{line}" if held else line
        try:
            shlex.split(held, comments=True)
        except ValueError:
            continue
        yield held
        held = ""


def _without_substitutions(text: str) -> str:
    text = re.sub(r"`[^`]*`", _UNKNOWN, text)
    while (start := text.find("$(")) >= 0:
        depth, end = 0, start + 1
        while end < len(text):
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
            if not depth:
                break
        text = text[:start] + _UNKNOWN + text[end:]
    return text.replace(_UNKNOWN, "$?")


def _simple(line: str) -> Iterator[list[str]]:
    """Yield the words of each simple command of the line; redirections end one."""
    reader = shlex.shlex(line, posix=True, punctuation_chars=";&|()<>")
    reader.whitespace_split = True
    words: list[str] = []
    for token in reader:
        if _OPERATORS.fullmatch(token):
            yield words
            words = []
        else:
            words.append(token)
    yield words
