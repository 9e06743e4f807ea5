"""What is installed here."""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from distdoctor import __version__


def versions(*, verbose: bool) -> str:
    """What is installed here; ``verbose``: also the Python and the torch that a job started here would get.

    torch is looked for and not imported.
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
    # A script finds what PYTHONPATH names before what is installed; distdoctor's own sys.path is another.
    first = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    try:
        spec = PathFinder.find_spec("torch", [*first, *sys.path])
    except (OSError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        return "torch is not installed for this Python"
    folder = Path(spec.origin).parent
    try:
        found = re.search(r"""^__version__\s*=\s*['"]([^'"]+)""", (folder / "version.py").read_text(), re.MULTILINE)
    except (OSError, ValueError):
        found = None
    return f"torch {found[1] if found else 'of unknown version'}  {folder}"
