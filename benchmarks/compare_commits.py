"""Time of a healthy check of one commit against that of another, on the same machine in the same run.

    python benchmarks/compare_commits.py BASE [HEAD] [--pairs 7] [--limit 1.10]          (HEAD)

Each commit lies in a worktree of its own, below a temporary folder. They take turns, pair by pair, and each pair begins
with the other one; the figure is the median of the pairs' ratios. The processor time of all hosts together is told too:
on a machine that others load, it says more than the clock. The environment is bare, as on a machine on which nothing
was set up. Exit status 1 where a median ratio of the time is above the limit, 2 where a commit or the lab is not there.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.lab.harness.cluster import Cluster
from tests.lab.harness.host import ROOT
from tests.lab.harness.launch import PORT
from tests.lab.harness.namespaces import why_not

SHAPES = ((1, 2), (2, 2))
"""Hosts, and ranks on each."""
BARE = {"HOME": "/", "LANG": None, "PYTHONUNBUFFERED": None, "VIRTUAL_ENV": None}
"""Environment of a host, with nothing of the shell that started this."""


class Unfinished(Exception):
    """A check that was to pass did not, or a commit is not there; the text says why."""


@contextmanager
def worktrees(commits: list[str]) -> Iterator[list[Path]]:
    """A worktree of each commit; they are gone afterwards. Raises Unfinished."""
    with tempfile.TemporaryDirectory(prefix="commits-") as folder:
        paths = [Path(folder) / str(number) for number in range(len(commits))]
        try:
            for path, commit in zip(paths, commits, strict=True):
                git("worktree", "add", "--quiet", "--detach", str(path), commit)
            yield paths
        finally:
            for path in paths:
                if path.exists():
                    git("worktree", "remove", "--force", str(path))


def git(*arguments: str) -> str:
    """Return the output of git. Raises Unfinished where it fails."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unfinished(done.stderr.strip())
    return done.stdout.strip()


def seconds(cluster: Cluster, checkout: Path, nproc: int) -> tuple[float, float]:
    """One check on all hosts, from the first start to the last end, and its processor time.

    Raises Unfinished where one does not pass.
    """
    shape = ["--nnodes", str(len(cluster)), "--nproc-per-node", str(nproc), "--master-port", str(PORT)]
    env = {**BARE, "PYTHONPATH": str(checkout)}
    began, busy = time.perf_counter(), processor()
    running = []
    for host in cluster:
        here = ["--node-rank", str(host.index), "--master-addr", cluster[0].name]
        running.append(host.popen([sys.executable, "-m", "distdoctor", "check", *shape, *here], env=env))
    said = [process.communicate(timeout=120) for process in running]
    taken = time.perf_counter() - began, processor() - busy
    if any(process.returncode for process in running):
        raise Unfinished(f"the check of {checkout.name} did not pass: {said}")
    return taken


def processor() -> float:
    """Seconds that a processor spent on what this process started and saw end."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


Seconds = list[tuple[float, float]]


def compare(checkouts: list[Path], hosts: int, nproc: int, pairs: int) -> tuple[Seconds, Seconds]:
    """The seconds of each commit, pair by pair, after one run of each that does not count (compiled files, caches)."""
    measured: tuple[Seconds, Seconds] = ([], [])
    with Cluster(hosts, shown=checkouts) as cluster:
        for pair in range(-1, pairs):
            for which in (0, 1) if pair % 2 else (1, 0):
                taken = seconds(cluster, checkouts[which], nproc)
                if pair >= 0:
                    measured[which].append(taken)
    return measured


def medians(base: Seconds, head: Seconds, which: int) -> tuple[float, float, float]:
    """Those of both commits, and that of the pairs' ratios, HEAD to BASE; ``which``: 0 the time, 1 the processor's."""
    pairs = [(b[which], h[which]) for b, h in zip(base, head, strict=True)]
    ratio = statistics.median(h / b for b, h in pairs)
    return statistics.median(b for b, _ in pairs), statistics.median(h for _, h in pairs), ratio


def main(words: list[str]) -> int:
    """Measure and print. Gives the exit status."""
    parser = argparse.ArgumentParser(description="Compare how long a healthy check of two commits takes.")
    parser.add_argument("base", metavar="BASE", help="the commit to compare with")
    parser.add_argument("head", metavar="HEAD", nargs="?", default="HEAD", help="the commit that is compared")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--limit", type=float, default=1.10, help="the greatest median ratio of HEAD to BASE")
    flags = parser.parse_args(words)
    if (reason := why_not()) is not None:
        sys.stderr.write(f"no lab here: {reason}\n")
        return 2
    too_slow = False
    try:
        commits = [git("rev-parse", "--short", f"{name}^{{commit}}") for name in (flags.base, flags.head)]
        with worktrees(commits) as checkouts:
            for hosts, nproc in SHAPES:
                measured = compare(checkouts, hosts, nproc, flags.pairs)
                base, head, ratio = medians(*measured, 0)
                busy_base, busy_head, busy = medians(*measured, 1)
                too_slow |= ratio > flags.limit
                sys.stdout.write(
                    f"{hosts} host(s) x {nproc} ranks: {commits[0]} {base:.2f} s, {commits[1]} {head:.2f} s, "
                    f"median ratio of {flags.pairs} pairs {ratio:.2f} (at most {flags.limit}); "
                    f"of the processor {busy_base:.2f} s, {busy_head:.2f} s, {busy:.2f}\n"
                )
                sys.stdout.flush()
    except Unfinished as err:
        sys.stderr.write(f"{err}\n")
        return 2
    return int(too_slow)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
