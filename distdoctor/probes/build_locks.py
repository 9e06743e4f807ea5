"""The locks of builds of extensions, for which torch.utils.cpp_extension waits without limit."""

from __future__ import annotations

import glob
import os
import pwd
import time
from collections.abc import Iterable, Iterator, Mapping

from distdoctor.model.facts import BuildLock
from distdoctor.model.sanitize import encodable
from distdoctor.probes.init_file import filesystem
from distdoctor.probes.threads import in_time

SECONDS = 1.0
"""In which they are found, unless a file system is stuck."""
MOST = 20
NAME = "lock"
"""The file in the build's folder that its FileBaton waits for (torch/utils/cpp_extension.py)."""
Identity = tuple[int, int]
"""A file's device and inode: it may have another path for each process."""


async def probe(builders: Mapping[str, Mapping[str, str]]) -> tuple[BuildLock, ...] | None:
    """What :func:`find` finds; None where a file system is stuck."""
    return await in_time(lambda: find(builders), SECONDS)


def find(builders: Mapping[str, Mapping[str, str]]) -> tuple[BuildLock, ...]:
    """The locks where these processes build: their numbers in /proc (or ``self``), and the variables of each."""
    found: dict[Identity, tuple[str, str]] = {}
    for process, env in builders.items():
        for path in _locks(f"/proc/{process}", env):
            try:
                stat = os.stat(path)
            except OSError:  # the build has ended
                continue
            found.setdefault((stat.st_dev, stat.st_ino), (process, path))
    found = dict(list(found.items())[:MOST])
    holders = _holders(found) if found else {}
    locks = (_lock(path, process, holders.get(file)) for file, (process, path) in found.items())
    return tuple(lock for lock in locks if lock is not None)


def _locks(proc: str, env: Mapping[str, str]) -> Iterator[str]:
    """Their paths below the root of the process (torch/utils/cpp_extension.py, ``_get_build_directory``)."""
    try:
        root, here, user = f"{proc}/root", os.readlink(f"{proc}/cwd"), os.stat(proc).st_uid
    except OSError:  # it has ended, or is not ours to see
        return
    if given := env.get("TORCH_EXTENSIONS_DIR"):
        folder, below = given, f"*/{NAME}"
    else:
        cache = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME") or _home(user), ".cache")
        folder, below = os.path.join(cache, "torch_extensions"), f"*/*/{NAME}"
    yield from glob.iglob(os.path.join(glob.escape(root + os.path.join(here, folder)), below))


def _home(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_dir
    except KeyError:
        return "/"


def _lock(path: str, process: str, holder: int | None) -> BuildLock | None:
    told = path.removeprefix(f"/proc/{process}/root")
    try:
        age = round(max(0.0, time.time() - os.stat(path).st_mtime), 1)
        here = os.path.exists(told) and os.path.samefile(told, path)
    except OSError:  # the build has ended
        return None
    kind = filesystem(told, f"/proc/{process}/mounts")
    return encodable(BuildLock(told if here else path, age, holder is not None, kind, holder))


def _holders(files: Iterable[Identity]) -> dict[Identity, int]:
    """Which process that this user may look into has which file open: FileBaton keeps it so (file_baton.py)."""
    wanted, holders = set(files), dict[Identity, int]()
    for link in glob.iglob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(link).endswith(f"/{NAME}"):
                stat = os.stat(link)
                if (stat.st_dev, stat.st_ino) in wanted:
                    holders.setdefault((stat.st_dev, stat.st_ino), int(link.split("/")[2]))
        except OSError:
            continue
    return holders
