"""What a process finds around it: how much memory it may use, whether the kernel killed any for want of it."""

from __future__ import annotations

import os
import resource
from dataclasses import replace

from distdoctor.model.facts import TorchFailure
from distdoctor.probes import proc

CGROUP = "/sys/fs/cgroup"
UNLIMITED = 1 << 60
"""cgroup v1 writes a number as large as this where there is no limit."""


def around(failure: TorchFailure, kills_before: int | None) -> TorchFailure:
    """The failure with what this process knows of its surroundings. ``kills_before``: see :func:`oom_kills`."""
    kills = oom_kills()
    return replace(
        failure,
        folder_gone=not _has_folder(),
        address_space=address_space(),
        data_segment=_soft(resource.RLIMIT_DATA),
        memory_limit=limit(),
        oom_kills=None if kills is None or kills_before is None else kills - kills_before,
        loader=tuple(name for name in ("LD_LIBRARY_PATH", "LD_PRELOAD") if os.environ.get(name)),
    )


def _has_folder() -> bool:
    try:
        return bool(os.getcwd())
    except OSError:  # it was deleted
        return False


def address_space() -> int | None:
    """RLIMIT_AS (``ulimit -v``) in bytes; None where there is no limit."""
    return _soft(resource.RLIMIT_AS)


def _soft(kind: int) -> int | None:
    limit = resource.getrlimit(kind)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def limit() -> int | None:
    """The bytes that this process's cgroup, or one above it, may use; None where there is no limit or none is seen."""
    found = []
    for folder in cgroups():
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = proc.text(f"{folder}/{name}")
            if text.isdecimal() and int(text) < UNLIMITED:
                found.append(int(text))
    return min(found, default=None)


def used() -> int | None:
    """The bytes in use, and not reclaimable, of the cgroup whose limit :func:`limit` says; None where none is seen."""
    found: list[tuple[int, int]] = []
    for folder in cgroups():
        for limit_name, used_name in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            most, now = proc.text(f"{folder}/{limit_name}"), proc.text(f"{folder}/{used_name}")
            if most.isdecimal() and int(most) < UNLIMITED and now.isdecimal():
                found.append((int(most), max(0, int(now) - _files(f"{folder}/memory.stat"))))
    return min(found)[1] if found else None


def _files(path: str) -> int:
    """The page cache, which the kernel gives back first (cgroup v2's names, and those of v1 for a whole tree)."""
    rows = dict(line.split(" ", 1) for line in proc.text(path).splitlines() if " " in line)
    for prefix in ("total_", ""):
        values = [rows.get(f"{prefix}{name}", "") for name in ("active_file", "inactive_file")]
        if all(value.isdecimal() for value in values):
            return sum(map(int, values))
    return 0


def own(pid: int) -> int | None:
    """The bytes of a process's memory that are its own and no file's (RssAnon of proc(5)); None where not known."""
    for line in proc.text(f"/proc/{pid}/status").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return None


def oom_kills() -> int | None:
    """How many processes of this cgroup the kernel has killed for want of memory; None where that cannot be read."""
    for folder in cgroups():
        for name in ("memory.events", "memory.oom_control"):
            for line in proc.text(f"{folder}/{name}").splitlines():
                word, _, number = line.partition(" ")
                if word == "oom_kill" and number.strip().isdecimal():
                    return int(number)
    return None


def cgroups(controller: str = "memory") -> list[str]:
    """The folders of this process's cgroup and those above it, as far as they are seen (cgroups(7))."""
    found: list[str] = []
    for line in proc.text("/proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        root = f"{CGROUP}/{controller}" if controllers else CGROUP
        while path not in ("", "/"):
            found.append(f"{root}{path}")
            path = os.path.dirname(path)
        found.append(root)
    return found
