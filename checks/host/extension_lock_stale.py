"""A build of an extension left its lock behind.

What you see
------------
`Using .../torch_extensions/... as PyTorch extensions root...` and then nothing, on every rank.

Why it happens
--------------
torch.utils.cpp_extension waits without a limit for the file `lock` in the build's folder; a build that was killed left
it.

Fix
---
Remove the lock file in that folder; TORCH_EXTENSIONS_DIR on a local disk.

When it is harmless
-------------------
While the extension is being built: the process that builds has the lock open, and a build takes minutes. Before a job
it is a warning, for it cannot be known which extensions the job builds.

See also
--------
host/compile-cache-shared
"""

from collections.abc import Iterator
from dataclasses import replace
from shlex import quote

from distdoctor.check_api import (
    BuildLock,
    Cluster,
    Finding,
    Fix,
    Line,
    Node,
    duration_text,
    files,
    live,
    names_of,
    together,
)

SEVERITY = "fail"
MATTERS = "a job that needs this extension waits without end, and without a word, where it is built"
LOOKS_AT = ("host.build_locks",)
LONG = 600.0
"""Seconds that a build takes at most, but for a few."""
LONG_ELSEWHERE = 4 * 3600.0
"""The same where another host may be building: its processes are not seen from here."""
PREVENTS = "store used"
NEXT = ("whether a lock is there", "ls -l ~/.cache/torch_extensions/*/*/lock")
LOG = (
    Line(
        "file_baton.py",
        r"wait \(.{0,200}file_baton\.py|file_baton\.py\x22, line \d+,? in wait",
        source=True,
        shows="end",
    ),
    Line("as PyTorch extensions root", shows="hint", why="it is also printed before every build that works"),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    found = {node: locks for node in cluster.nodes if (locks := left(node))}
    if not found:
        return
    paths = dict.fromkeys(lock.path for locks in found.values() for lock in locks)
    yield Finding.about(
        found,
        f"A build that was ended left its lock on {names_of(list(found))}: {together(list(paths))}.",
        severity="warn",
        evidence=(
            f"{node.name}: {lock.path} was made {duration_text(lock.age)} ago, and no process here has it open"
            for node, locks in found.items()
            for lock in locks
        ),
        fixes=(
            Fix.on(node, "Remove it.", commands=tuple(f"rm {quote(lock.path)}" for lock in locks))
            for node, locks in found.items()
        ),
    )


def left(node: Node) -> tuple[BuildLock, ...]:
    """The locks that nobody holds any more."""
    return tuple(
        lock
        for lock in node.host.build_locks or ()
        if not lock.building and lock.age > (LONG_ELSEWHERE if shared(lock) else LONG)
    )


def shared(lock: BuildLock) -> bool:
    return lock.filesystem is None or files.is_network_filesystem(lock.filesystem)


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    waits = [rank for rank in job.ranks if rank.place.kind == live.places.LOCK] if job else []
    if job is None or not waits:
        yield from perhaps(job) if job else ()
        return
    locks = [(node, lock) for node, facts in job.facts for lock in facts.locks]
    if any(lock.building for _, lock in locks) or not locks:
        return  # somebody builds, here or where this cannot be seen
    nodes = list(dict.fromkeys(rank.node for rank in waits))
    yield live.rank_finding(
        waits,
        f"{live.called(waits)} wait{'s' if len(waits) == 1 else ''} for a build of an extension that nobody "
        f"here makes: {locks[0][1].path} was left behind.",
        evidence=(
            *live.where_ranks_are(waits),
            *(
                f"{n.name}: {lock.path}, made {duration_text(lock.age)} ago, is open in no process here"
                for n, lock in locks
            ),
            *live.waiting_evidence(job, waits),
        ),
        fixes=(
            Fix.on(
                nodes,
                "Remove the file, unless another host builds there now; the ranks then go on.",
                commands=[f"rm {quote(lock.path)}" for _, lock in locks],
            ),
        ),
    )


def perhaps(job: live.LiveJob) -> Iterator[Finding]:
    """Ranks that look for something ten times a second, which no stack shows, and a lock that nobody holds."""
    polling = [rank for rank in job.ranks if live.looks_for_a_file(rank.process) and not rank.works]
    locks = [(node, lock) for node, facts in job.facts for lock in facts.locks]
    if not polling or not locks or any(lock.building for _, lock in locks):
        return
    told = live.rank_finding(
        polling,
        f"{live.called(polling)} look{'s' if len(polling) == 1 else ''} for something ten times a second, as who waits "
        f"for the build of an extension does, and nobody here makes it: {locks[0][1].path} may have been left behind.",
        evidence=(
            *live.where_ranks_are(polling),
            *(
                f"{n.name}: {lock.path}, made {duration_text(lock.age)} ago, is open in no process here"
                for n, lock in locks
            ),
        ),
        severity="warn",
    )
    yield replace(
        told, matters="what they look for cannot be seen without their stacks: install py-spy, and look again"
    )
