"""typer's parser of the commands: its help in groups, its complaints in our words, plain values without pydantic."""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import typer

from distdoctor.cli.help import fitting
from distdoctor.cli.options import GROUPS
from distdoctor.cli.parsing import TIMES, did_you_mean


def parser_of(app: typer.Typer, words: Sequence[str]) -> Any:
    """The parser of all commands, prepared for the command that ``words`` name."""
    parser = typer.main.get_command(app)
    commands, columns = getattr(parser, "commands", {}), shutil.get_terminal_size().columns
    for command in (parser, *(commands[word] for word in words[:1] if word in commands)):
        pass_by(command)
        command.help, command.epilog = fitting(command.help or "", columns), fitting(command.epilog or "", columns)
        command.format_options = partial(_format_options, command)
        for param in command.params:
            if param.param_type_name == "argument":
                param.display_type_rich = lambda ctx: None  # the help says what it is, not <list[Path]>
    return parser


def option_groups(params: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    """Return the options below the headings of ``--help``; an option without a group, such as --help, is output."""
    options = [param for param in params if param.param_type_name == "option" and not getattr(param, "hidden", False)]
    if not any(option.rich_help_panel in GROUPS for option in options):
        return [("Options", options)]
    groups: dict[str, list[Any]] = {group: [] for group in GROUPS}
    for option in options:
        groups[option.rich_help_panel or "Output"].append(option)
    return [(group, members) for group, members in groups.items() if members]


def _format_options(command: Any, context: Any, formatter: Any) -> None:
    """Write the sections of ``--help``: commands, arguments, then each group of options."""
    if hasattr(command, "commands"):
        command.format_commands(context, formatter)
    params = command.get_params(context)
    arguments = [param for param in params if param.param_type_name == "argument"]
    for title, members in (("Arguments", arguments), *option_groups(params)):
        records = [record for param in members if (record := param.get_help_record(context)) is not None]
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def without_value(parser: Any, words: Sequence[str]) -> str | None:
    """Return the complaint about an option whose value is the next option, None without one.

    The parser alone would complain about a later word.
    """
    command = getattr(parser, "commands", {}).get(words[0]) if words else None
    options = [param for param in command.params if param.param_type_name == "option"] if command is not None else []
    known = {name for option in options for name in (*option.opts, *option.secondary_opts)}
    valued = {name for option in options if not (option.is_flag or option.count) for name in option.opts}
    for name, following in itertools.pairwise(words):
        if name in valued and following in known:
            return f"{name} needs a value before {following}"
    return None


def complaint_of(err: Exception) -> str:
    """Return the parser's own complaint as one line, in the style of the others."""
    possible = getattr(err, "possibilities", None)
    if possible:
        wrong = str(getattr(err, "option_name", ""))
        return f"no option {wrong!r}{did_you_mean(wrong, possible)}"
    formatted = getattr(err, "format_message", None)
    text = " ".join(str(formatted() if callable(formatted) else err).split()).rstrip(".")
    extra = re.fullmatch(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", text)
    if extra:
        of_job = getattr(getattr(err, "ctx", None), "info_name", None) == "check"
        return f"unexpected argument {extra[1]!r}" + (
            " (a check does not run the job's script: leave it out)" if of_job else ""
        )
    number = re.fullmatch(r"Invalid value for '([^']*)': Input should be a valid (integer|number)\b.*", text)
    if number:
        wanted = "a time, such as 60, 60s or 2m" if number[1] in TIMES else "a number"
        return f"{number[1]} needs {'a whole number' if number[2] == 'integer' else wanted}"
    return text[:1].lower() + text[1:]


# Values that need no conversion, taken as they are.
#
# typer 0.29 converts each value by pydantic, also the default of an option that was not given: loading that takes as
# long as the rest of the parser. Values that it would not change skip it; typer handles all else, and all errors.


MANY_DIGITS = 10


def pass_by(command: Any) -> None:
    """Let the parameters of this command, as typer made it, take plain values as they are."""
    all_params = command.get_params  # those of the command, and --help, which is made on demand

    def get_params(context: Any) -> Any:
        params = all_params(context)
        for param in params:
            descriptor = getattr(param, "type_descriptor", None)  # other versions have none, and need no pydantic
            take = _TAKES.get(getattr(descriptor, "annotation", None))
            if take is not None and "process_value" not in vars(param):
                param.process_value = _either(param, take, param.process_value)
        return params

    command.get_params = get_params


def _either(param: Any, take: Callable[[Any], Any], convert: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    several = bool(getattr(param, "multiple", False)) or param.nargs == -1

    def process_value(context: Any, value: Any) -> Any:
        plain = (() if several else None) if value is None else take(value)
        if (plain is None and value is not None) or (param.required and not plain):
            return convert(context, value)
        return plain if param.callback is None else param.callback(context, param, plain)

    return process_value


def _text(value: Any) -> str | None:
    """Return the text; None for one that not every part of the program can have."""
    return value if isinstance(value, str) and value.isascii() else None


def _path(value: Any) -> Path | None:
    """Return the path; None also for an existing unreadable one, which typer complains of.

    Raises BadParameter for an empty one, as of an unset variable: it would mean the working folder.
    """
    text = _text(value)
    if text == "":
        raise typer.BadParameter("the name is empty")
    return Path(text) if text and (os.access(text, os.R_OK) or not os.path.lexists(text)) else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _integer(value: Any) -> int | None:
    """Return a default, or plain digits."""
    if type(value) is int:
        return value
    text = _text(value) or ""
    return int(text) if text.isdigit() and len(text) < MANY_DIGITS else None


def _float(value: Any) -> float | None:
    """Return a default, or plain digits, perhaps with a point between them."""
    if type(value) is float:
        return value
    whole, point, part = (_text(value) or "").partition(".")
    fit = whole.isdigit() and (part.isdigit() or not point) and len(whole + part) < MANY_DIGITS
    return float(f"{whole}.{part}") if fit else None


def _each(take: Callable[[Any], Any]) -> Callable[[Any], list[Any] | None]:
    """Return a function that takes values one by one; it returns None without any, or with one that needs more."""

    def taken(values: Any) -> list[Any] | None:
        results = [take(value) for value in values] if isinstance(values, (list, tuple)) else []
        return results if results and None not in results else None

    return taken


_TAKES: dict[Any, Callable[[Any], Any]] = {
    str: _text,
    Path: _path,
    bool: _flag,
    int: _integer,
    float: _float,
    list[str]: _each(_text),
    list[Path]: _each(_path),
}
"""Conversion of each kind; None leaves the value to typer."""
