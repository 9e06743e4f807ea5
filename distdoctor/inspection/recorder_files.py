"""Flight recorders that a job's ranks wrote to files on this host just now. None is asked to write one.

A rank writes to a prefix and its number (c10d/FlightRecorder.cpp, ``DebugInfoWriter``): that of a variable, else one of
the defaults of torch 2.5 to 2.13. With NCCL its watchdog does so when a collective timed out.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator

from distdoctor.inspection import proc_files
from distdoctor.inspection.candidates import Candidate
from distdoctor.inspection.debug_endpoints import recorders_of
from distdoctor.inspection.jobs import Found
from distdoctor.launch.nodes import number_of
from distdoctor.logs import flight_recorder
from distdoctor.model.facts import WorkerServer
from distdoctor.model.launch_settings import RANK
from distdoctor.model.sanitize import encodable

MOST_BYTES = 32 << 20
RECENT = 300.0
"""Seconds: what was written before may be of a hang that is over."""
_VARIABLES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")


def read(found: Found) -> tuple[WorkerServer, ...]:
    """What the files tell, one entry for each rank that has one."""
    told = []
    for one in found.ranks:
        rank = one.variables.get(RANK.variables[0], "")
        if number_of(rank) is None:
            continue
        for prefix in prefixes(one.variables):
            entry = _read(one, int(rank), f"{prefix}{rank}")
            if entry is not None:
                told.append(entry)
                break
    return tuple(told)


def prefixes(env: dict[str, str]) -> Iterator[str]:
    """Where a rank with these variables writes to, without its number."""
    yield from (env[name] for name in _VARIABLES if os.path.isabs(env.get(name, "")))
    home = env.get("HOME", "")
    cache = env.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
    if os.path.isabs(cache):
        yield f"{cache}/torch/comm_lib_trace_rank_"
        yield f"{home}/.cache/torch/nccl_trace_rank_"
    yield "/tmp/nccl_trace_rank_"


def _read(one: Candidate, rank: int, path: str) -> WorkerServer | None:
    """What the file holds; None where there is none that this process has written."""
    url = encodable(f"file:{path}")[:300]
    try:
        # A file in /tmp may be anybody's: no link is followed, no pipe waited for.
        owner = os.stat(f"/proc/{one.pid}").st_uid
        number = os.open(f"/proc/{one.pid}/root{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(number, "rb") as file:
        seen = os.fstat(number)
        since = min(RECENT, max(0.0, proc_files.uptime() - one.started) + 1.0)
        if not stat.S_ISREG(seen.st_mode) or seen.st_mtime < time.time() - since or seen.st_uid != owner:
            return None
        try:
            dump = flight_recorder.load(path, file.read(MOST_BYTES))
        except (OSError, flight_recorder.BadDump):
            return None
    return WorkerServer(rank, url, recorders=recorders_of(dump))
