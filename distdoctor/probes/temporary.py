"""Whether this user has a folder for temporary files."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress

from distdoctor.model.facts import TemporaryFolder


def probe() -> TemporaryFolder:
    """What Python's tempfile finds by $TMPDIR, $TEMP, $TMP, /tmp, /var/tmp, /usr/tmp and the working directory.

    It tries a file in each until one can be written, then a folder there, and takes them away again.
    """
    try:
        folder = tempfile.gettempdir()
    except OSError as err:
        places = (os.environ.get("HOME"), "/dev/shm")
        usable = (place for place in places if place and os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK))
        return TemporaryFolder(None, err.strerror or str(err), next(usable, None))
    error = _unusable(folder)
    return TemporaryFolder(None, error, umask=_umask()) if error else TemporaryFolder(folder)


def _unusable(folder: str) -> str:
    """Why nothing can be made in a folder that this user has made there, as torchrun does; empty: it can."""
    with suppress(OSError):  # such as a full disk, which others tell
        own = tempfile.mkdtemp(dir=folder)
        inside = os.path.join(own, "inside")
        try:
            os.mkdir(inside, 0o700)
            os.rmdir(inside)
        except PermissionError as err:
            return f"{err.strerror} in a folder just made in {folder}"
        finally:
            os.rmdir(own)
    return ""


def _umask() -> str:
    """Of this process, by proc(5): to ask the kernel for it is to change it."""
    try:
        with open("/proc/self/status") as status:
            return next((line.split()[1] for line in status if line.startswith("Umask:")), "")
    except OSError:
        return ""
