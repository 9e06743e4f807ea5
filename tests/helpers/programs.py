"""Where the tests find the programs of the system: a plain user's PATH often lacks the folders of ip, nft and tc."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
OWN = f"{PATH}:{Path(sys.executable).parent}"
"""Those of this Python's packages, too."""


def missing(programs: Iterable[str]) -> str | None:
    """``not installed: a, b``, or None where all are there."""
    absent = [program for program in programs if shutil.which(program, path=OWN) is None]
    return f"not installed: {', '.join(absent)}" if absent else None
