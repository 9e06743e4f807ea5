"""typer's parser of the commands, and its complaints in our words."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Sequence
from typing import Any

import typer

from distdoctor.cli.argv import did_you_mean
from distdoctor.cli.help_texts import fitting
from distdoctor.cli.plain_values import pass_by


def parser_of(app: typer.Typer, words: Sequence[str]) -> Any:
    """The parser of all commands, made light for the one that these words name."""
    parser = typer.main.get_command(app)
    commands, columns = getattr(parser, "commands", {}), shutil.get_terminal_size().columns
    for command in (parser, *(commands[word] for word in words[:1] if word in commands)):
        pass_by(command)
        command.help = fitting(command.help or "", columns)
        for param in command.params:
            if param.param_type_name == "argument":
                param.display_type_rich = lambda ctx: None  # the help says what it is, not <list[Path]>
    return parser


def without_value(parser: Any, words: Sequence[str]) -> str | None:
    """What is wrong where an option took the next option for its value: the parser would complain of the rest."""
    command = getattr(parser, "commands", {}).get(words[0]) if words else None
    options = [param for param in command.params if param.param_type_name == "option"] if command is not None else []
    known = {name for option in options for name in (*option.opts, *option.secondary_opts)}
    valued = {name for option in options if not (option.is_flag or option.count) for name in option.opts}
    for name, following in itertools.pairwise(words):
        if name in valued and following in known:
            return f"{name} needs a value, and {following} stands there"
    return None


def complaint_of(err: Exception) -> str:
    """The parser's own complaint as one line, in the style of the others."""
    possible = getattr(err, "possibilities", None)
    if possible:
        wrong = str(getattr(err, "option_name", ""))
        return f"no option {wrong!r}{did_you_mean(wrong, possible)}"
    formatted = getattr(err, "format_message", None)
    text = " ".join(str(formatted() if callable(formatted) else err).split()).rstrip(".")
    extra = re.fullmatch(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", text)
    if extra:
        of_job = getattr(getattr(err, "ctx", None), "info_name", None) == "check"
        return f"{extra[1]!r} belongs to no flag here" + (
            " (the job's own script is not run: leave it out)" if of_job else ""
        )
    number = re.fullmatch(r"Invalid value for '([^']*)': Input should be a valid (integer|number)\b.*", text)
    if number:
        return f"{number[1]} needs a {'whole number' if number[2] == 'integer' else 'number'}"
    return text[:1].lower() + text[1:]
