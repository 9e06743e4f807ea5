"""A file that a variable of the launcher names: whatever it is, it is not waited for."""

from __future__ import annotations

import os
import stat


def text_of(path: str, most: int) -> str:
    """At most so many bytes of it, as text; empty where it is no regular file, or cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)  # a FIFO without a writer
        with open(descriptor, "rb") as file:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return file.read(most).decode("utf-8", "replace") if regular else ""
    except (OSError, ValueError):
        return ""
