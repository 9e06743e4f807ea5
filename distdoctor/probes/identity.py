"""Who this process is, and the launch variables it was given."""

from __future__ import annotations

import getpass
import os
import platform
import socket
import sys
from collections.abc import Collection, Mapping

from distdoctor import __version__
from distdoctor.knowledge.variables import ALLOWED, LIBRARY_PATHS
from distdoctor.model.facts import Identity
from distdoctor.probes import proc

LONGEST = 500
LONGEST_PATH = 4_000
"""Characters; a fix sets the list of folders anew, without one of them."""


def variables(env: Mapping[str, str], more: Collection[str] = ()) -> dict[str, str]:
    """The variables that decide how a job is launched and connected, each cut to LONGEST or LONGEST_PATH.

    ``more``: further names, which the checks of a site declare.
    """
    longest = dict.fromkeys(LIBRARY_PATHS, LONGEST_PATH)
    return {name: env[name][: longest.get(name, LONGEST)] for name in sorted(env) if name in ALLOWED or name in more}


def identity() -> Identity:
    """This process on this host. What torch is here is filled in once it is imported."""
    return Identity(
        hostname=socket.gethostname(),
        boot_id=proc.text("/proc/sys/kernel/random/boot_id"),
        netns=_link("/proc/self/ns/net"),
        pid=os.getpid(),
        distdoctor=__version__,
        python=platform.python_version(),
        user=_user(),
        executable=sys.executable or "",
        kernel=os.uname().release,
        libc=_libc(),
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not be in /etc/passwd
        return str(os.getuid())


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):  # another C library has no such name
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
