"""Programs that tests start. A plain user's PATH often lacks the folders of ip, nft and tc."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
OWN = f"{PATH}:{Path(sys.executable).parent}"
"""Those of this Python's packages, too."""


def missing(programs: Iterable[str]) -> str | None:
    """``not installed: a, b``, or None where all are there."""
    absent = [program for program in programs if shutil.which(program, path=OWN) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


@contextmanager
def python(code: str) -> Iterator[subprocess.Popen[str]]:
    """A Python that has run the code up to where it prints."""
    started = subprocess.Popen(
        [sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert started.stdout is not None and started.stdout.readline()
        time.sleep(0.1)
        yield started
    finally:
        started.kill()
        started.communicate()
