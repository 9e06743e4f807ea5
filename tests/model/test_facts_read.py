"""Every fact has a reader: it costs its probe's time, and room in the store for each node."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import distdoctor
from distdoctor.model import facts

PACKAGE = Path(distdoctor.__file__).parent
CHECKS = PACKAGE.parent / "checks"


def fields() -> Iterator[tuple[str, str]]:
    """The name of each fact, with that of its dataclass."""
    for module in pkgutil.iter_modules(facts.__path__):
        found = importlib.import_module(f"{facts.__name__}.{module.name}")
        for name, one in inspect.getmembers(found, dataclasses.is_dataclass):
            if inspect.isclass(one) and one.__module__ == found.__name__:
                yield from ((field.name, name) for field in dataclasses.fields(one))


def read() -> set[str]:
    """The attributes that are read anywhere but where facts are gathered, and the words by which some are asked for."""
    found = set()
    for path in (*PACKAGE.rglob("*.py"), *CHECKS.rglob("*.py")):
        if path.is_relative_to(PACKAGE / "probes"):
            continue
        for one in ast.walk(ast.parse(path.read_text())):
            if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Load):
                found.add(one.attr)
            elif isinstance(one, ast.Constant) and isinstance(one.value, str):
                found.add(one.value)
    return found


def test_every_fact_is_read_by_somebody() -> None:
    known = read()
    assert {(name, of) for name, of in fields() if name not in known} == set()
    assert len(known) > 1000 and len(list(fields())) > 200
