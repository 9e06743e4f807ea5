"""Values that need no conversion, taken as they are.

typer 0.29 converts each value by pydantic, also the default of an option that was not given: loading that takes as long
as all else of the parser. What would come back as it went in is passed by; all else, and all that is wrong, is typer's.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

MANY_DIGITS = 10


def pass_by(command: Any) -> None:
    """Let the parameters of this command, as typer made it, take plain values as they are."""
    all_params = command.get_params  # those of the command, and --help, which is made when it is asked for

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
    """None for what is no text that every part of the program can have."""
    return value if isinstance(value, str) and value.isascii() else None


def _path(value: Any) -> Path | None:
    """None also for one that is there and cannot be read, which typer complains of. Raises BadParameter for an empty
    one, as of a variable that is not set: it would mean the working folder."""
    text = _text(value)
    if text == "":
        raise typer.BadParameter("the name is empty")
    return Path(text) if text and (os.access(text, os.R_OK) or not os.path.lexists(text)) else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _integer(value: Any) -> int | None:
    """A default, or plain digits."""
    if type(value) is int:
        return value
    text = _text(value) or ""
    return int(text) if text.isdigit() and len(text) < MANY_DIGITS else None


def _float(value: Any) -> float | None:
    """A default, or plain digits, perhaps with a point between them."""
    if type(value) is float:
        return value
    whole, point, part = (_text(value) or "").partition(".")
    fit = whole.isdigit() and (part.isdigit() or not point) and len(whole + part) < MANY_DIGITS
    return float(f"{whole}.{part}") if fit else None


def _each(take: Callable[[Any], Any]) -> Callable[[Any], list[Any] | None]:
    """Takes values one by one; None where there is none, or one that needs more."""

    def taken(values: Any) -> list[Any] | None:
        found = [take(value) for value in values] if isinstance(values, (list, tuple)) else []
        return found if found and None not in found else None

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
"""How a value of each kind is taken; it gives None where typer is to see to it."""
