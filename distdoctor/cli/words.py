"""Small things that several commands say."""

from __future__ import annotations

import os
import shutil
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
        return (here,) if "/" in here and os.access(here, os.X_OK) else (_python(), here)
    if Path(sys.argv[0]).name == "__main__.py":
        return _python(), "-m", "distdoctor"
    return ("distdoctor",)


def torchrun() -> tuple[str, ...]:
    """How the torchrun of this Python is started. The command need not be on the PATH, and the one that is there may be
    another Python's; the module is the same."""
    found = shutil.which("torchrun")
    this = str(Path(sys.executable).parent / "python").encode()
    return ("torchrun",) if found and this in _head(found) else (_python(), "-m", "torch.distributed.run")


def _head(path: str) -> bytes:
    """Where pip writes which Python a command is started with."""
    try:
        with open(path, "rb") as file:
            return file.read(500)
    except OSError:
        return b""


def _python() -> str:
    """This Python: by its name where the PATH leads to it, else by its path. The links to it that virtual environments
    are made of stay as they are: what they lead to has other packages."""
    path = Path(sys.executable)
    found = shutil.which(path.name) if path.name else None
    here = found is not None and Path(found).parent.resolve() == path.parent.resolve()
    return path.name if here else str(path) if path.name else "python3"
