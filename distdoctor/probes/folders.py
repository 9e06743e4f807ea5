"""The folders that jobs write to: whether they still can, and what builds left locked there."""

from __future__ import annotations

import asyncio
import glob
import os
import time
from collections.abc import Iterator, Mapping

from distdoctor.model.facts import BuildLock, Folder
from distdoctor.probes.init_file import filesystem
from distdoctor.probes.look_up import ASKER

USES = (
    "TMPDIR",
    "HOME",
    "XDG_CACHE_HOME",
    "TORCH_HOME",
    "HF_HOME",
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
)
"""Variables that name a folder in which torch, Triton, Hugging Face's libraries or Python write."""
TEMPORARY = "/tmp"
"""What TMPDIR is where it is not set; also the use told of it then."""
SECONDS = 1.0
"""For one folder; they are asked all at once."""
MAX_LOCKS = 20
LOCAL_NAME = "lock"
"""torch/utils/cpp_extension.py: the file in the build's folder that its FileBaton waits for."""


async def probe(env: Mapping[str, str]) -> tuple[Folder, ...]:
    """Each folder that there is, once: of several uses of one, the first."""
    named = {os.path.realpath(path): (use, path) for use, path in reversed(list(_named(env)))}
    return tuple(await asyncio.gather(*(_look(use, path) for use, path in reversed(named.values()))))


def _named(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for use in USES:
        path = env.get(use, "")
        if os.path.isabs(path):
            yield use, path
    if not env.get("TMPDIR"):
        yield TEMPORARY, TEMPORARY
    try:
        yield ".", os.getcwd()
    except OSError:  # it was deleted
        return


async def _look(use: str, path: str) -> Folder:
    reply = await ASKER.ask("folder", path, SECONDS)
    if len(reply.found) != 3:
        return Folder(use, path, "timeout" if reply.timed_out else "", filesystem=filesystem(path))
    said, free, files = reply.found
    return Folder(use, path, said, int(free), None if int(files) < 0 else int(files), filesystem(path))


def build_locks(env: Mapping[str, str]) -> tuple[BuildLock, ...]:
    """The locks of builds of extensions (torch/utils/cpp_extension.py, ``_get_build_directory``)."""
    root = env.get("TORCH_EXTENSIONS_DIR", "")
    if root:
        patterns = [f"{glob.escape(root)}/*/{LOCAL_NAME}"]
    else:
        cache = env.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        patterns = [f"{glob.escape(cache)}/torch_extensions/*/*/{LOCAL_NAME}"]
    found = [path for pattern in patterns for path in glob.iglob(pattern)][:MAX_LOCKS]
    return tuple(lock for path in found if (lock := _lock(path)) is not None)


def _lock(path: str) -> BuildLock | None:
    try:
        made = os.stat(path).st_mtime
    except OSError:  # the build has ended
        return None
    return BuildLock(path, round(max(0.0, time.time() - made), 1), _is_open(path), filesystem(path))


def _is_open(path: str) -> bool:
    """Whether any process that this user may look into has the file open: FileBaton keeps it so (file_baton.py)."""
    real = os.path.realpath(path)
    for link in glob.iglob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(link) == real:
                return True
        except OSError:
            continue
    return False
