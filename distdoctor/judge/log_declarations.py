"""What a check declares of logs: its wordings, whether they are what they should be, and whether they are safe."""

from __future__ import annotations

import re
from typing import get_args

from distdoctor.judge.expressions import hazard
from distdoctor.model.log_line import Line, Shows

SHORTEST = 4
"""Characters of a literal of LOG; shorter ones stand everywhere."""


def problem_of_log(log: object) -> str:
    """What is wrong with a check's ``LOG``, empty where nothing is."""
    if not isinstance(log, (tuple, list)) or not all(isinstance(line, Line) for line in log):
        return "LOG holds Lines"
    return next(filter(None, map(_problem_of_literals, log)), "")


def _problem_of_literals(line: Line) -> str:
    if not line.literals and line.ended is None:
        return "a Line of LOG has a literal, or a class of ends"
    literals = (line.literal,) if isinstance(line.literal, str) else line.literal
    if not isinstance(literals, tuple) or not all(isinstance(one, str) for one in literals):
        return f"the literal of a Line is a text or a tuple of texts, not {line.literal!r}"
    if any(len(literal) < SHORTEST or "\n" in literal for literal in literals):
        return f"a literal of LOG has at least {SHORTEST} characters, all on one line"
    return ""


def problem_of_lines(log: tuple[Line, ...]) -> str:
    """What is wrong with the fields of a site's own Lines: a misspelled word, or an expression that could take for
    ever; empty where nothing is."""
    return next(filter(None, map(_problem_of_line, log)), "")


def _problem_of_line(line: Line) -> str:
    if line.shows not in get_args(Shows):
        return f"shows={line.shows!r} is none of {', '.join(get_args(Shows))}"
    for pattern in (line.pattern, line.unless, line.stack):
        if not isinstance(pattern, str):
            return f"{pattern!r} is no expression: write a text"
        if problem := hazard(pattern):
            return f"{pattern!r} {problem}"
    missing = [name for name in line.above if name and name not in re.compile(line.pattern).groupindex]
    return f"above names {missing[0]!r}, which is no group of {line.pattern!r}" if missing else ""
