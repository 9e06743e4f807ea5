"""What a check declares of logs: its wordings, whether they are what they should be, and whether they are safe."""

from __future__ import annotations

from pathlib import Path

from distdoctor.judge.expressions import hazard
from distdoctor.model.log_line import Line

SHORTEST = 4
"""Characters of a literal of LOG; shorter ones stand everywhere."""


def problem_of_log(log: object) -> str:
    """What is wrong with a check's ``LOG``, empty where nothing is."""
    if not isinstance(log, (tuple, list)) or not all(isinstance(line, Line) for line in log):
        return "LOG holds Lines"
    if any(len(literal) < SHORTEST or "\n" in literal for line in log for literal in line.literals):
        return f"a literal of LOG has at least {SHORTEST} characters, all on one line"
    return ""


def problem_of_expressions(path: Path, log: tuple[Line, ...]) -> str:
    """Which expression of a site's own check could take for ever; empty where none could."""
    for pattern in (pattern for line in log for pattern in (line.pattern, line.unless, line.stack)):
        if problem := hazard(pattern):
            return f"{path}: {pattern!r} {problem}"
    return ""
