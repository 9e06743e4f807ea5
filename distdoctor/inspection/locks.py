"""The lock files on which ranks wait for each other's builds of extensions (torch/utils/file_baton.py)."""

from __future__ import annotations

import glob
import os
import time

from distdoctor.inspection import proc_files
from distdoctor.inspection.jobs import Found
from distdoctor.model.facts import LockFile
from distdoctor.model.sanitize import encodable

MOST = 16


def look(found: Found) -> tuple[LockFile, ...]:
    """The lock files in the folders in which this job's ranks build extensions."""
    holders = _open_files(found)
    paths = dict.fromkeys(path for one in found.ranks for path in _candidates(one.variables, one.pid))
    seen = []
    for path in list(paths)[:MOST]:
        try:
            made = os.stat(path).st_mtime
        except OSError:
            continue
        seen.append(encodable(LockFile(path[:400], round(max(0.0, time.time() - made), 1), holders.get(path))))
    return tuple(seen)


def _candidates(env: dict[str, str], pid: int) -> list[str]:
    """``lock`` in each extension's folder (torch/utils/cpp_extension.py, ``_get_build_directory``)."""
    home = env.get("HOME", "")
    cache = env.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
    root = env.get("TORCH_EXTENSIONS_DIR") or (f"{cache}/torch_extensions" if cache else "")
    if not os.path.isabs(root):
        return []
    inside = f"/proc/{pid}/root{root}"
    found = [*glob.glob(f"{glob.escape(inside)}/*/lock"), *glob.glob(f"{glob.escape(inside)}/*/*/lock")]
    return [path.removeprefix(f"/proc/{pid}/root") if os.path.exists(path.removeprefix(f"/proc/{pid}/root")) else path
            for path in found]  # fmt: skip


def _open_files(found: Found) -> dict[str, int]:
    """Which of the job's processes has which file open: who builds has the lock file open."""
    opened: dict[str, int] = {}
    for pid in found.members:
        for number in proc_files.names(pid, "fd"):
            path = proc_files.link(pid, f"fd/{number}")
            if path and path.endswith("/lock"):
                opened.setdefault(path, pid)
    return opened
