"""Small things that several commands say."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from distdoctor import own_path
from distdoctor.cli.argv import did_you_mean
from distdoctor.model.errors import UsageError


def one_of(flag: str, value: str, known: Sequence[str]) -> str:
    """``value``, which has to be one of ``known``. Raises UsageError."""
    if value in known:
        return value
    hint = did_you_mean(value, known) or f"; one of {', '.join(known)}"
    raise UsageError(f"{flag} {value!r} is not known{hint}")


def program() -> tuple[str, ...]:
    """How this was started, as it and the others are to be started again."""
    if own_path.archive:
        here = sys.argv[0]
        return (here,) if "/" in here and os.access(here, os.X_OK) else (Path(sys.executable).name or "python3", here)
    if Path(sys.argv[0]).name == "__main__.py":
        return Path(sys.executable).name or "python3", "-m", "distdoctor"
    return ("distdoctor",)
