"""Extra time of `check --hosts` over the same check started on every host, and the number of hosts it can reach.

    python benchmarks/from_one_place.py [PAIRS]            (5; 8 hosts, whole checks in turn, the median of both)
    python benchmarks/from_one_place.py --hosts 64         (one check of so many, up to the stage network: time, memory)
    python benchmarks/from_one_place.py --lines 200        (what the way to each of so many costs the place itself)

All hosts are on this machine and share its processors: what many of them take is theirs, not that of the way to them.
With ``--lines`` they are so many logins on one host, where a stub answers. Memory is what the
command itself and its ssh processes have (Pss), at most, looked at ten times a second. All is compiled first, as where
distdoctor is installed: else each process compiles it anew, and the place itself is one process more.
"""

from __future__ import annotations

import argparse
import compileall
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.lab.harness.host import SHARED, Process
from tests.lab.harness.launch import DISTDOCTOR, PORT
from tests.launchers.harness import sshd
from tests.launchers.harness.site import Site, unfit

HOSTS = 8
LIMIT = 1.0
"""Seconds that going there from one place may add."""
LOOKS = 0.1
STUB = """#!/bin/sh
echo '@distdoctor {"hello": true}'
read -r line
while sleep 4; do echo '@distdoctor {"beat": true}'; done &
while read -r line; do case $line in *'"go"'*) break ;; esac; done
kill $!
echo '@distdoctor {"nothing": "a stub"}'
"""


def plain(site: Site, *flags: str) -> float:
    """Seconds of a check that is started on every host at once. Raises RuntimeError where one fails."""
    shape = ("--nnodes", str(len(site.nodes)), "--master-addr", site.names[0])
    began = time.perf_counter()
    processes = [
        host.popen([*DISTDOCTOR, "check", *shape, "--node-rank", str(host.index), *flags], stdout=subprocess.DEVNULL)
        for host in site.nodes
    ]
    errors = [process.communicate(timeout=300)[1] for process in processes]
    taken = time.perf_counter() - began
    if any(process.returncode for process in processes):
        raise RuntimeError(f"the plain check failed: {errors}")
    return taken


def from_one_place(site: Site, *flags: str) -> tuple[float, int]:
    """Seconds of the same check from the login node, and the most bytes it had there. Raises RuntimeError."""
    began = time.perf_counter()
    process = site.popen([*DISTDOCTOR, "check", "--json", "--hosts", ",".join(site.names), *flags])
    out, err, most = told(site, process)
    taken = time.perf_counter() - began
    nodes = json.loads(out)["nodes"] if process.returncode == 0 else []
    if sum(node["arrived"] for node in nodes) != len(site.nodes):
        raise RuntimeError(f"the check from one place failed: {process.returncode} {err[-2000:]} {out[-2000:]}")
    return taken, most


def told(site: Site, process: Process) -> tuple[str, str, int]:
    """Return its output (stdout and stderr) and its peak memory in bytes."""
    most = 0
    while True:
        try:
            return *process.communicate(timeout=LOOKS), most
        except subprocess.TimeoutExpired:
            most = max(most, memory(site))


def lines(number: int) -> int:
    """The way to so many hosts, each of which is one and the same."""
    with Site(1) as site:
        site.sshd.restart(site.nodes[0], f"SetEnv PATH={sshd.PROGRAM_FOLDER}:/usr/sbin:/usr/bin:/sbin:/bin\n")
        config = site.sshd.folder / "config"
        config.write_text("Host line*\n  HostName host0\n  HostKeyAlias host0\n" + config.read_text())
        site.cluster.put("stub", STUB)
        command = [
            *DISTDOCTOR,
            "check",
            "-q",
            "--json",
            "--hosts",
            f"line[1-{number}]",
            "--setup",
            f"exec sh {SHARED}/stub",
        ]
        before, began = processor_time(), time.perf_counter()
        process = site.popen(command)
        out, _, most = told(site, process)
        taken, here = time.perf_counter() - began, (processor_time() - before) / number * 1000
    each = (processor_time() - before) / number * 1000
    # Who told nothing for a reason is no failure.
    answered = process.returncode == 3 and not json.loads(out)["findings"]
    sys.stdout.write(
        f"{number} lines in {taken:.1f} s: for each {each:.0f} ms of the processor, {here:.0f} ms "
        f"of them here, and {(most >> 10) / number:.0f} KiB here{'' if answered else ', and not all answered'}\n"
    )
    return int(not answered)


def processor_time() -> float:
    """Seconds that what was started and has ended took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def memory(site: Site) -> int:
    """Bytes of the command and of what it has started, as far as they can be read."""
    found = 0
    for pid, line in site.login.processes().items():
        if "distdoctor" in line and "sshd" not in line:
            try:
                rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            except OSError:
                continue
            found += sum(int(row.split()[1]) for row in rollup.splitlines() if row.startswith("Pss:"))
    return found << 10


def compare(pairs: int) -> int:
    """Both ways in turn. Gives exit status 1 where the way adds more than it may."""
    with Site(HOSTS) as site:
        assert site.sshd
        flags = ("--nproc-per-node", "1", "--master-port", str(PORT))
        rows = [(plain(site, *flags), from_one_place(site, *flags)[0]) for _ in range(pairs)]
        for each, one in rows:
            sys.stdout.write(f"  {HOSTS} hosts: {each:.2f} s on each, {one:.2f} s from one place\n")
    more = statistics.median(one for _, one in rows) - statistics.median(each for each, _ in rows)
    sys.stdout.write(f"{more:+.2f} s from one place (at most {LIMIT:g})\n")
    return int(more > LIMIT)


def many(hosts: int) -> int:
    """One check of all, as far as it needs no torch."""
    with Site(hosts) as site:
        assert site.sshd
        seconds, most = from_one_place(site, "--until", "network", "--wait", "300", "--master-port", str(PORT))
    sys.stdout.write(f"{hosts} hosts from one place, up to the network: {seconds:.1f} s, {most >> 20} MiB here\n")
    return 0


def main() -> int:
    """Measure and print."""
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("pairs", nargs="?", type=int, default=5)
    words.add_argument("--hosts", type=int)
    words.add_argument("--lines", type=int)
    asked = words.parse_args()
    if reason := unfit(*sshd.PROGRAMS):
        sys.stderr.write(f"no such site here: {reason}\n")
        return 2
    for folder in ("distdoctor", "checks"):
        compileall.compile_dir(Path(__file__).resolve().parents[1] / folder, quiet=1)
    if asked.lines:
        return lines(asked.lines)
    return many(asked.hosts) if asked.hosts else compare(asked.pairs)


if __name__ == "__main__":
    sys.exit(main())
