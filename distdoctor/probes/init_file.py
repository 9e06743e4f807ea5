"""The file behind ``--init-method file://``."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from urllib.parse import urlsplit

from distdoctor.model.facts import InitFile
from distdoctor.probes.look_up import ASKER
from distdoctor.probes.threads import in_time

SECONDS = 1.0
"""For a file to be locked."""


def probe(init_method: str | None) -> InitFile | None:
    """The file named by a ``file://`` init method, as it is before the run; None for any other method."""
    if not init_method or not init_method.startswith("file://"):
        return None
    path = urlsplit(init_method).path  # torch decodes no %20 either
    folder = os.path.dirname(path) or "/"
    folder_exists = os.path.isdir(folder)
    writable = os.access(path if os.path.exists(path) else folder, os.W_OK)
    try:
        stat = os.stat(path)
    except OSError:
        device = os.stat(folder).st_dev if folder_exists else None
        return InitFile(path, False, 0, 0.0, folder_exists, writable, device, None, filesystem(folder))
    age = round(max(0.0, time.time() - stat.st_mtime), 1)
    return InitFile(path, True, stat.st_size, age, folder_exists, writable, stat.st_dev, stat.st_ino, filesystem(path))


async def look(init_method: str | None) -> InitFile | None:
    """What :func:`probe` sees, and whether files there can be locked; None also where it takes too long."""
    file, error = await asyncio.gather(in_time(lambda: probe(init_method), SECONDS), lock_error(init_method))
    return replace(file, lock_error=error) if file else None


async def lock_error(init_method: str | None) -> str:
    """Why files beside that of a ``file://`` init method cannot be locked, as FileStore does with its own: the errno's
    name. Empty where they can, where there is no such file, or where that is not known."""
    if not init_method or not init_method.startswith("file://"):
        return ""
    folder = os.path.dirname(urlsplit(init_method).path) or "/"
    return next(iter((await ASKER.ask("lock", folder, SECONDS)).found), "")


def filesystem(path: str, table: str = "/proc/self/mounts") -> str | None:
    """The type of the file system that ``path`` is on (nfs4, ext4, ...), from a process's mounts."""
    return mount(path, table)[0]


def mount(path: str, table: str = "/proc/self/mounts") -> tuple[str | None, str]:
    """That, and what is mounted there: a device, a server and its folder."""
    best, kind, source = "", None, ""
    try:
        with open(table, "rb") as mounts:
            for line in mounts:
                fields = line.split()
                point = os.fsdecode(fields[1].decode("unicode_escape").encode("latin-1"))  # "\\040" is a space
                if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
                    best, kind, source = point, os.fsdecode(fields[2]), os.fsdecode(fields[0])
    except OSError:
        return None, ""
    return kind, source
