"""Checks of a command: the built-in ones, those of --checks, and the ids of --ignore."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from distdoctor.cli.parsing import did_you_mean
from distdoctor.judge.catalog import BadCheck, Check, load
from distdoctor.model.errors import UsageError


def load_checks(folders: Sequence[Path]) -> tuple[Check, ...]:
    """Return the built-in checks and those of the folders. Raises UsageError."""
    try:
        return load(folders)
    except BadCheck as err:
        raise UsageError(str(err)) from None


def known_ids(ids: Iterable[str], checks: Sequence[Check]) -> tuple[str, ...]:
    """Return the ``ids`` (or patterns such as ``gloo/*``), which each must mean at least one check. Raises
    UsageError."""
    known = [check.id for check in checks]
    for wanted in ids:
        if not any(fnmatchcase(check_id, wanted) for check_id in known):
            raise UsageError(f"--ignore {wanted!r}: no such check{did_you_mean(wanted, known)}")
    return tuple(ids)
