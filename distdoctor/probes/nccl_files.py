"""What NCCL reads besides its environment: NCCL_CONF_FILE, or .nccl.conf in the user's home, then /etc/nccl.conf.

Source: NCCL src/misc/param.cc (``initEnvFunc``, ``setEnvFile``; the home is that of getpwuid, not $HOME). What is
set in the environment stays as it is, and so does what an earlier file has set: setenv() is told not to overwrite. A
line is NAME=VALUE, taken as it stands, blanks too; one that begins with # is none.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Mapping

SYSTEM = "/etc/nccl.conf"
MAX_BYTES = 1 << 16
MAX_VALUE = 1023


def settings(env: Mapping[str, str], system: str = SYSTEM) -> dict[str, tuple[str, str]]:
    """Name -> the value that NCCL takes from a file, and the file. Not those that the environment has, too."""
    found: dict[str, tuple[str, str]] = {}
    for path in paths(env, system):
        for name, value in _lines(path):
            if name not in env:
                found.setdefault(name, (value, path))
    return found


def paths(env: Mapping[str, str], system: str = SYSTEM) -> tuple[str, ...]:
    """The files, the first of them first."""
    return env.get("NCCL_CONF_FILE") or _users(), system


def _users() -> str:
    try:
        return os.path.join(pwd.getpwuid(os.getuid()).pw_dir, ".nccl.conf")
    except KeyError:  # a container's user need not be in /etc/passwd
        return ""


def _lines(path: str) -> Iterator[tuple[str, str]]:
    try:
        # Neither a FIFO nor a device is waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            text = os.fsdecode(file.read(MAX_BYTES) or b"")
    except OSError:
        return
    for line in text.split("\n"):
        name, sign, value = line.partition("=")
        if sign and not line.startswith("#"):
            yield name, value[:MAX_VALUE]
