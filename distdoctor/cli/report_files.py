"""Reports that go to files: whole or not at all, and what could not be written is said."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from pathlib import Path

from distdoctor import streams
from distdoctor.model.errors import UsageError
from distdoctor.model.sanitize import clean

MODE = 0o644
"""A collector of metrics and a web server run as other users."""
_failed: list[Path] = []


def begin() -> None:
    """A new report: nothing has failed yet."""
    _failed.clear()


def report_path(name: str, path: str) -> Path:
    """The file for a report of format ``name``. Raises UsageError where none can be written there."""
    file = Path(path)
    if not path or file.is_dir():
        raise UsageError(f"--output {name}={path}: needs the name of a file")
    if file.is_symlink() and file.absolute().parts[1] in ("dev", "proc"):
        # /dev/stdout: a new file in its place would be there for all.
        raise UsageError(f"--output {name}={path}: is no plain file; --output {name} alone writes to stdout")
    for part in (file.absolute(), *file.absolute().parents):
        if _planted(part):
            raise UsageError(f"--output {name}={path}: {part} is a link that another user left in a folder for all")
    file = Path(os.path.realpath(file))  # a link stays one
    if not file.parent.is_dir():
        raise UsageError(f"--output {name}={path}: there is no folder {file.parent}")
    if file.exists() and not file.is_file():
        raise UsageError(f"--output {name}={path}: is no plain file")
    return file


def _planted(path: Path) -> bool:
    """Whether the kernel would not follow this link (fs.protected_symlinks in its sysctl/fs.rst), which a file that is
    put in the place of another goes round."""
    if not path.is_symlink():
        return False
    folder, link = path.parent.stat(), path.lstat()
    for_all = stat.S_ISVTX | stat.S_IWOTH
    return folder.st_mode & for_all == for_all and link.st_uid not in (os.geteuid(), folder.st_uid)


def write(path: Path, text: str) -> None:
    """Put ``text`` in the place of the file: who reads it meanwhile sees the old one or the new one, whole."""
    try:
        number, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
                os.fchmod(file.fileno(), MODE & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as err:
        _say(path, err)


def append(path: Path, text: str) -> None:
    """Add ``text`` to the end of the file."""
    try:
        with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as err:
        _say(path, err)


def failed() -> bool:
    """Whether one could not be written."""
    return bool(_failed)


def _say(path: Path, err: OSError) -> None:
    _failed.append(path)
    streams.write(f"distdoctor: {clean(path)}: could not be written: {err.strerror}\n", sys.stderr)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
