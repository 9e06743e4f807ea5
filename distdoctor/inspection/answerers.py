"""Who of this host is to answer a rank, or what runs below one, that waits at a TCP connection: and whether that works.

It need not belong to the job: a program that generates, or scores, what the job learns from; a manager of
multiprocessing. One on another host is not seen.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace

from distdoctor.inspection import proc_files, thread_names
from distdoctor.inspection.sockets import SocketTables
from distdoctor.model.facts import Answerer, JobProcess
from distdoctor.model.sanitize import clean
from distdoctor.probes.proc import inodes, waited

WATCHED = 0.3
"""Seconds for which they are watched."""
_SEARCHED = 2.0
"""Seconds for which it is looked for who has the other ends."""
_ASK = ("rank", "loader", "child")


def with_answerers(processes: Sequence[JobProcess], tables: SocketTables) -> list[JobProcess]:
    """The processes, with who is to answer their main threads."""
    wanted = {}
    for one in processes:
        if one.role in _ASK and (inode := _other_end(one, tables)):
            wanted[one.pid] = inode
    if not wanted:
        return [*processes]
    holders = _holders(set(wanted.values()))
    used = _used(holders.values())
    found = {
        pid: Answerer(min(holders[inode]), _name(min(holders[inode])), used[holders[inode]])
        for pid, inode in wanted.items()
        if inode in holders
    }
    return [_with(one, found[one.pid]) if one.pid in found else one for one in processes]


def _with(one: JobProcess, asks: Answerer) -> JobProcess:
    return replace(one, threads=(replace(one.threads[0], asks=asks), *one.threads[1:]))


def _name(pid: int) -> str:
    return clean((proc_files.text(pid, "comm", 64) or "").strip())


def _other_end(one: JobProcess, tables: SocketTables) -> str:
    """The inode of the other end of the connection at which its main thread waits; empty where it is in torch, which
    asks its store and its peers, or waits at none."""
    main = one.main
    if main is None or not main.call or (main.frames and main.frames[0].file.startswith("torch/")):
        return ""
    call = thread_names.call_of(one.pid, one.main.tid if one.main else one.pid)
    mine = thread_names.asked_by(one.pid, call, tables) if call else None
    return tables.other_end(one.pid, mine) if mine is not None else ""


def _holders(wanted: Collection[str]) -> dict[str, frozenset[int]]:
    """Inode -> the processes that have it open."""
    found: dict[str, set[int]] = {}
    end = time.monotonic() + _SEARCHED
    for pid in proc_files.all_pids():
        for inode in inodes(pid) & set(wanted):
            found.setdefault(inode, set()).add(pid)
        if time.monotonic() > end:
            break
    return {inode: frozenset(pids) for inode, pids in found.items()}


def _used(groups: Collection[frozenset[int]]) -> dict[frozenset[int], float]:
    """How much of a processor each of these groups of processes used, or waited for, with all that runs below them."""
    began, before = time.monotonic(), {pids: _spent(pids) for pids in groups}
    time.sleep(WATCHED)
    seconds = time.monotonic() - began
    return {pids: round(max(0.0, _spent(pids) - spent) / seconds, 2) for pids, spent in before.items()}


def _spent(pids: Collection[int]) -> float:
    """Seconds for which these, and what runs below them, had a processor or would have used one."""
    seen = {pid: one for pid in proc_files.all_pids() if (one := proc_files.stat(pid)) is not None}
    those = set(pids)
    while True:
        below = {pid for pid, one in seen.items() if one.parent in those} - those
        if not below:
            break
        those |= below
    return sum(seen[pid].cpu + waited(pid) for pid in those if pid in seen)
