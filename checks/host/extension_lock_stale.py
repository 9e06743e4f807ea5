"""The build of an extension left its lock file behind.

## What you see
`Using .../torch_extensions/... as PyTorch extensions root...`, then silence on every rank.

## Why it happens
torch.utils.cpp_extension waits without a limit for the file `lock` in the build folder. A killed build left it there.

## Fix
Remove the lock file: `rm ~/.cache/torch_extensions/*/*/lock`; set TORCH_EXTENSIONS_DIR to a local disk.

## Confirm with
`ls -l ~/.cache/torch_extensions/*/*/lock` lists no file, and `fuser` on it shows no process before you remove it.

## When it is harmless
While the extension is being built: the builder has the lock open, and a build takes minutes. Before a job it is a WARN,
because the job may build other extensions.

## See also
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
MATTERS = "a job that needs this extension waits in silence and without end before its build"
LOOKS_AT = ("host.build_locks",)
LONG = 600.0
"""Seconds that a build takes at most, but for a few."""
LONG_IF_SHARED = 4 * 3600.0
"""The same where another host may be building: its processes are not seen from here."""
PREVENTS = "store used"
NEXT = ("the lock files", "ls -l ~/.cache/torch_extensions/*/*/lock")
LOG = (
    Line(
        "file_baton.py",
        r"wait \(.{0,200}file_baton\.py|file_baton\.py\x22, line \d+,? in wait",
        source=True,
        shows="end",
    ),
    Line("as PyTorch extensions root", shows="hint", why="torch prints it also before every successful build"),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    stale_locks = {node: locks for node in cluster.nodes if (locks := unheld_locks(node))}
    if not stale_locks:
        return
    paths = dict.fromkeys(lock.path for locks in stale_locks.values() for lock in locks)
    yield Finding.about(
        stale_locks,
        f"A killed build left its lock file on {names_of(list(stale_locks))}: {together(list(paths))}.",
        severity="warn",
        evidence=(
            f"{node.name}: {lock.path} is {duration_text(lock.age)} old, and no process here has it open"
            for node, locks in stale_locks.items()
            for lock in locks
        ),
        fixes=(
            Fix.on(node, "Remove the lock file.", commands=tuple(f"rm {quote(lock.path)}" for lock in locks))
            for node, locks in stale_locks.items()
        ),
    )


def unheld_locks(node: Node) -> tuple[BuildLock, ...]:
    """Return the locks that no process holds."""
    return tuple(
        lock
        for lock in node.host.build_locks or ()
        if not lock.building and lock.age > (LONG_IF_SHARED if shared(lock) else LONG)
    )


def shared(lock: BuildLock) -> bool:
    return lock.filesystem is None or files.is_network_filesystem(lock.filesystem)


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    waits = [rank for rank in job.ranks if rank.place.kind == live.places.LOCK] if job else []
    if job is None or not waits:
        yield from polling_findings(job) if job else ()
        return
    locks = [(node, lock) for node, facts in job.facts for lock in facts.locks]
    if any(lock.building for _, lock in locks) or not locks:
        return  # somebody builds, here or where this cannot be seen
    nodes = list(dict.fromkeys(rank.node for rank in waits))
    yield live.rank_finding(
        waits,
        f"{live.ranks_called(waits)} wait{'s' if len(waits) == 1 else ''} for the build of an extension that no "
        "process "
        "here "
        f"builds: {locks[0][1].path} is a leftover.",
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
                "Remove the file, unless another host builds there now; the ranks then continue.",
                commands=[f"rm {quote(lock.path)}" for _, lock in locks],
            ),
        ),
    )


def polling_findings(job: live.LiveJob) -> Iterator[Finding]:
    """Yield the finding about ranks without a stack that poll ten times a second, with a lock that no process holds."""
    polling = [rank for rank in job.ranks if live.looks_for_a_file(rank.process) and not rank.works]
    locks = [(node, lock) for node, facts in job.facts for lock in facts.locks]
    if not polling or not locks or any(lock.building for _, lock in locks):
        return
    polled = live.rank_finding(
        polling,
        f"{live.ranks_called(polling)} poll{'s' if len(polling) == 1 else ''} ten times a second, as if waiting for "
        "the "
        "build "
        f"of an extension; no process here builds, and {locks[0][1].path} may be a leftover.",
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
        polled, matters="their stacks are unknown: install py-spy (pip install py-spy) and run distdoctor hang again"
    )
