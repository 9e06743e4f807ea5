"""How slow this machine is just now, so that a bound in seconds means the same on a busy one; and a busy one made."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

HOSTS = 2
QUIET_SECONDS = 2.0
"""What ``HOSTS`` imports of torch side by side take on the quiet two cores that the bounds were set for."""


def slowness() -> float:
    """1 on such a machine or a faster one, 2 where the same takes twice the time now."""
    started = time.monotonic()
    imports = [
        subprocess.Popen([sys.executable, "-c", "import torch.distributed"], stderr=subprocess.DEVNULL, env=os.environ)
        for _ in range(HOSTS)
    ]
    for process in imports:
        process.wait()
    return max(1.0, (time.monotonic() - started) / QUIET_SECONDS)


@contextmanager
def load(busy: bool) -> Iterator[None]:
    """A process on each core that does nothing but work, where ``busy``."""
    count = os.cpu_count() or 1 if busy else 0
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
