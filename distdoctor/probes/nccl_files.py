"""What NCCL reads besides its environment: NCCL_CONF_FILE, or .nccl.conf in the user's home, then /etc/nccl.conf.

Source: NCCL src/misc/param.cc (``initEnvFunc``, ``setEnvFile``). NCCL_CONF_FILE is looked at from 2.23 on. The home is
that of getpwuid() up to 2.29, and $HOME after it, which also takes a line's end of Windows for one. What is set in the
environment stays as it is, and so does what an earlier file has set: setenv() is told not to overwrite. A line is
NAME=VALUE, taken as it stands, blanks too; one that begins with # is none. What real NCCLs of eight versions made of
such files is kept in tests/recorded/nccl.json.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Mapping

from distdoctor.knowledge.nccl import NEWEST, Version

NAMED_FILE: Version = (2, 23)
HOME_VARIABLE: Version = (2, 30)
SYSTEM = "/etc/nccl.conf"
MAX_BYTES = 1 << 16
MAX_VALUE = 1023


def settings(env: Mapping[str, str], system: str = SYSTEM, nccl: Version = NEWEST) -> dict[str, tuple[str, str]]:
    """Name -> the value that an NCCL of this version takes from a file, and the file. Not those that the environment
    has, too."""
    found: dict[str, tuple[str, str]] = {}
    for path in paths(env, system, nccl):
        for name, value in _lines(path, windows=nccl >= HOME_VARIABLE):
            if name not in env:
                found.setdefault(name, (value, path))
    return found


def paths(env: Mapping[str, str], system: str = SYSTEM, nccl: Version = NEWEST) -> tuple[str, ...]:
    """The files, the first of them first."""
    named = env.get("NCCL_CONF_FILE") if nccl >= NAMED_FILE else None
    return named or _users(env, nccl), system


def _users(env: Mapping[str, str], nccl: Version) -> str:
    if nccl >= HOME_VARIABLE:
        return f"{env['HOME']}/.nccl.conf" if "HOME" in env else ""
    try:
        return os.path.join(pwd.getpwuid(os.getuid()).pw_dir, ".nccl.conf")
    except KeyError:  # a container's user need not be in /etc/passwd
        return ""


def _lines(path: str, windows: bool) -> Iterator[tuple[str, str]]:
    """``windows``: whether such a line's end is one."""
    try:
        # Neither a FIFO nor a device is waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            text = os.fsdecode(file.read(MAX_BYTES) or b"")
    except OSError:
        return
    for line in text.split("\n"):
        name, sign, value = line.removesuffix("\r" if windows else "").partition("=")
        if sign and not line.startswith("#"):
            yield name, value[:MAX_VALUE]
