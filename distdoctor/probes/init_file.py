"""The file behind ``--init-method file://``."""

from __future__ import annotations

import os
import time
from urllib.parse import urlsplit

from distdoctor.model.facts import InitFile


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


def filesystem(path: str, table: str = "/proc/self/mounts") -> str | None:
    """The type of the file system that ``path`` is on (nfs4, ext4, ...), from a process's mounts."""
    best, kind = "", None
    try:
        with open(table, "rb") as mounts:
            for line in mounts:
                fields = line.split()
                point = os.fsdecode(fields[1].decode("unicode_escape").encode("latin-1"))  # "\\040" is a space
                if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
                    best, kind = point, os.fsdecode(fields[2])
    except OSError:
        return None
    return kind
