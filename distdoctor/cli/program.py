"""Name, versions and start commands of this program."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from distdoctor import __version__, own_path
from distdoctor.cli.parsing import did_you_mean
from distdoctor.model.errors import UsageError


def require_one_of(flag: str, value: str, known: Sequence[str]) -> str:
    """Return ``value``, which must be one of ``known``. Raises UsageError."""
    if value in known:
        return value
    hint = did_you_mean(value, known) or f"; one of {', '.join(known)}"
    raise UsageError(f"{flag} {value!r} is not known{hint}")


def program() -> tuple[str, ...]:
    """Return the command that started this, by which it and the others are started again."""
    if own_path.archive:
        here = sys.argv[0]
        return (here,) if "/" in here and os.access(here, os.X_OK) else (_python(), here)
    if Path(sys.argv[0]).name == "__main__.py":
        return _python(), "-m", "distdoctor"
    return ("distdoctor",)


def torchrun() -> tuple[str, ...]:
    """Return the command of this Python's torchrun.

    The command need not be on the PATH, and the one that is there may be another Python's; the module is the same.
    """
    program = shutil.which("torchrun")
    this = str(Path(sys.executable).parent / "python").encode()
    return ("torchrun",) if program and this in _head(program) else (_python(), "-m", "torch.distributed.run")


def _head(path: str) -> bytes:
    """Return the first line of a command, in which pip writes its Python."""
    try:
        with open(path, "rb") as file:
            return file.read(500)
    except OSError:
        return b""


def _python() -> str:
    """Return this Python: by its name if the PATH leads to it, else by its path.

    The links of virtual environments to it stay as they are: their target has other packages.
    """
    path = Path(sys.executable)
    program = shutil.which(path.name) if path.name else None
    here = program is not None and Path(program).parent.resolve() == path.parent.resolve()
    return path.name if here else str(path) if path.name else "python3"


# Installed versions.


def versions(*, verbose: bool) -> str:
    """Return the installed versions; ``verbose``: also the Python and the torch that a job started here would get.

    torch is located and not imported.
    """
    if not verbose:
        return f"distdoctor {__version__}\n"
    from distdoctor.judge.catalog import built_in_folder

    return (
        f"distdoctor {__version__}  {Path(__file__).resolve().parents[1]}\n"
        f"checks  {built_in_folder()}\n"
        f"Python {platform.python_version()}  {sys.executable}\n"
        f"{_torch()}\n"
    )


def _torch() -> str:
    # A script finds PYTHONPATH before installed packages; distdoctor's own sys.path differs.
    first = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    try:
        spec = PathFinder.find_spec("torch", [*first, *sys.path])
    except (OSError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        return "torch is not installed for this Python"
    folder = Path(spec.origin).parent
    try:
        match = re.search(r"""^__version__\s*=\s*['"]([^'"]+)""", (folder / "version.py").read_text(), re.MULTILINE)
    except (OSError, ValueError):
        match = None
    return f"torch {match[1] if match else 'of unknown version'}  {folder}"
