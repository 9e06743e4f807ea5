"""The faults of the lab with any program: is the fault found, and are the node and the cause named?

    python benchmark/lab.py --program distdoctor [--only PATTERN] [--limit 60]
    python benchmark/lab.py --program 'mytool --json {flags}' --adapter json
    python benchmark/lab.py --compare [--at-once 3]  every program of PROGRAMS on NINE faults and a healthy cluster

A program is started on every host of the lab at once, as a job's launcher is. In its command, {flags} are torchrun's
launch flags of that host, {python} is this Python, {folder} is benchmark/programs, {dlrover} is build/dlrover and
{config} a configuration file of accelerate with the same values. An adapter reads an answer from exit statuses and
output (ADAPTERS).
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.lab.cases import ALL_CASES  # noqa: E402
from tests.lab.harness.case import NODES_MISSING, Case, matches  # noqa: E402
from tests.lab.harness.cluster import Cluster  # noqa: E402
from tests.lab.harness.examine import unfit  # noqa: E402
from tests.lab.harness.host import SHARED  # noqa: E402
from tests.lab.harness.launch import Launch, Start  # noqa: E402
from tests.lab.harness.namespaces import LabUnavailable, why_not  # noqa: E402

PROGRAMS = {
    "torchrun": ("{python} -m torch.distributed.run {flags} {folder}/job.py", "torchrun"),
    "node-test": ("{python} -m torch.distributed.run {flags} {folder}/node_test.py", "torchrun"),
    "accelerate": (
        "env ACCELERATE_USE_CPU=true {python} -m accelerate.commands.accelerate_cli test --config_file {config}",
        "torchrun",
    ),
    "dlrover": ("env PYTHONPATH={dlrover} {python} {folder}/dlrover_check.py {flags}", "status"),
    "distdoctor": ("{python} -m distdoctor check --json --wait 20 {flags}", "json"),
}
"""Programs by name, each with its adapter. node-test has the steps of stas00's torch-distributed-gpu-test.py."""
DLROVER = ROOT / "build/dlrover"
"""DLRover, where `make compare` installs it."""
TITLES = {
    "node-test": "stas00's script, with gloo",
    "accelerate": "accelerate test",
    "dlrover": "DLRover's network check",
    "distdoctor": "distdoctor check",
}
NINE = (
    "the master's name is unknown on node 1",
    "the master's port is dropped",
    "a web server holds the port",
    "node 1 is not started",
    "--nnodes 2 and 3",
    "127.0.1.1 on both",
    "GLOO_SOCKET_IFNAME names no interface",
    "only MASTER_PORT is open on the lower address",
    "large packets vanish",
)
"""The faults of --compare."""
COMPARED_HOW = (
    "stas00's script needs GPUs and NCCL: its steps run with gloo. DLRover's master, part of a Kubernetes job, runs on "
    "node 0 at the job's address. accelerate test has one rank per host and uses gloo. With "
    "--nnodes 2 and 3, torchrun and what builds on it end only if the agent with 3 counts itself first at the exit."
)
COMPARED = ROOT / "benchmark/compared.md"
"""The last table of --compare, which docs/validation.md repeats."""
HEALTHY = Case("healthy", lambda launch: None, "", ())
LIMIT = 60.0
"""Seconds after which a program that has not ended has given no answer."""
STYLES = ("node", "torchrun")
"""Ways of launching in which a case has flags that every program can be given."""


@dataclass(frozen=True)
class Ended:
    """End of the program on one host."""

    host: str
    status: int | None
    """None: it was killed at the limit."""
    seconds: float
    output: str


@dataclass(frozen=True)
class Answer:
    """A program's answer about a whole cluster."""

    found: bool
    """It says that something is wrong."""
    causes: frozenset[str] = frozenset()
    """Ids of the causes that it names."""
    nodes: frozenset[str] = frozenset()
    """Hosts that it names as affected."""


@dataclass(frozen=True)
class Score:
    """One case with one program."""

    case: Case
    answer: Answer
    seconds: float | None
    """Until the first sign of a fault, or the last end if there was none; None: it did not end within the limit."""

    @property
    def right(self) -> bool:
        """Return whether it tells a faulty cluster from a healthy one."""
        return self.answer.found == bool(self.case.root) and self.seconds is not None

    @property
    def cause(self) -> bool:
        known = {root.check for root in self.case.roots}
        return known <= self.answer.causes <= known | {NODES_MISSING, *self.case.alone}

    @property
    def node(self) -> bool:
        return bool(self.answer.nodes) and self.answer.nodes == {name for one in self.case.roots for name in one.blamed}

    def words(self) -> str:
        if self.seconds is None:
            return "does not end"
        if not self.answer.found:
            return f"pass, {self.seconds:.0f} s"
        named = [word for word, given in (("cause", self.cause), ("nodes", self.node)) if given]
        return f"fails, {self.seconds:.0f} s{', names ' + ' and '.join(named) if named else ''}"


# Adapters.


def from_statuses(ended: Sequence[Ended]) -> Answer:
    """Read statuses alone: 0 everywhere is a pass, any other is a fault, and nothing is named."""
    return Answer(any(one.status not in (0, None) for one in ended))


def from_torchrun(ended: Sequence[Ended]) -> Answer:
    """Read statuses, and the hosts in the root causes of torchrun's tables of failures."""
    roots = (re.findall(r"Root Cause \(first observed failure\):.*?host\s*: (\S+)", one.output, re.S) for one in ended)
    return Answer(from_statuses(ended).found, nodes=frozenset(host for hosts in roots for host in hosts))


def from_json(ended: Sequence[Ended]) -> Answer:
    """Read documents in the form of `distdoctor schema`: verdict, and findings with severity, check and nodes."""
    findings: list[dict[str, Any]] = []
    found = False
    for one in ended:
        try:
            document = json.loads(one.output[one.output.index("{") : one.output.rindex("}") + 1])
        except ValueError:
            continue
        found = found or document["verdict"] in ("fail", "incomplete")
        findings += [f for f in document["findings"] if f["severity"] == "fail" and f.get("because_of") is None]
    sure = [f for f in findings if f["check"] != NODES_MISSING] or findings
    nodes = frozenset(name for finding in sure for name in finding["nodes"])
    return Answer(found, frozenset(finding["check"] for finding in findings), nodes)


ADAPTERS: dict[str, Callable[[Sequence[Ended]], Answer]] = {
    "status": from_statuses,
    "torchrun": from_torchrun,
    "json": from_json,
}


# Runs.


@dataclass
class Program:
    """A command with its adapter."""

    command: str
    adapter: str
    limit: float = LIMIT
    seen: list[Ended] = field(default_factory=list)
    """How it ended on each host in the last case."""

    def on(self, case: Case) -> Score:
        """Run it on a cluster with the fault. Raises LabUnavailable."""
        with Cluster(case.hosts, subnets=case.subnets, interface=case.interface) as cluster:
            launch = Launch(cluster, case.style, case.nproc, master=case.master)
            case.fault(launch)
            self.seen = self._run(launch)
        answer = ADAPTERS[self.adapter](self.seen)
        ended = [one.seconds for one in self.seen if one.status is not None]
        failed = [one.seconds for one in self.seen if one.status not in (0, None)]
        endless = not failed and (answer.found or len(ended) < len(self.seen))
        return Score(case, answer, None if endless else min(failed, default=max(ended, default=0.0)))

    def _run(self, launch: Launch) -> list[Ended]:
        starts = sorted((start for start in launch.starts if start.started), key=lambda start: start.delay)
        began, ended, threads = time.monotonic(), list[Ended](), []
        for start in starts:
            time.sleep(max(0.0, began + start.delay - time.monotonic()))
            words = ["sh", "-c", "\n".join([*start.before, 'exec "$@"']), "sh", *self._words(launch, start)]
            path = f"{Path(sys.executable).parent}:{start.host.environment()['PATH']}"
            process = start.host.popen(words, env={"PATH": path, **start.env}, uid=start.uid, stderr=subprocess.STDOUT)
            threads.append(threading.Thread(target=_collect, args=(process, start.host.name, self.limit, ended)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        return ended

    def _words(self, launch: Launch, start: Start) -> list[str]:
        flags = {flag: value for flag, value in start.flags.items() if value is not None}
        values = {
            "python": shlex.quote(sys.executable),
            "flags": shlex.join(part for pair in flags.items() for part in pair),
            "folder": shlex.quote(str(ROOT / "benchmark/programs")),
            "dlrover": shlex.quote(str(DLROVER)),
            "config": _accelerate(launch, start, flags) if "{config}" in self.command else "",
        }
        return shlex.split(self.command.format(**values))


def _collect(process: Any, host: str, limit: float, ended: list[Ended]) -> None:
    began = time.monotonic()
    try:
        output, _ = process.communicate(timeout=limit)
        status = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        output, status = "", None  # its children may hold the pipe until the host ends
    ended.append(Ended(host, status, time.monotonic() - began, output))


def _accelerate(launch: Launch, start: Start, flags: dict[str, str]) -> str:
    """Return the path of a configuration file of accelerate for this host."""
    machines = int(flags["--nnodes"])
    values = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "MULTI_GPU",  # as MULTI_CPU, each host would start one rank that is alone
        "use_cpu": False,
        "num_machines": machines,
        "machine_rank": int(flags.get("--node-rank", "0")),
        "num_processes": machines,  # its test fails by itself with four
        "main_process_ip": flags["--master-addr"],
        "main_process_port": int(flags.get("--master-port", "29500")),
        "rdzv_backend": "static",
        "same_network": True,
        "main_training_function": "main",
        "mixed_precision": "no",
    }
    name = f"accelerate-{start.host.name}.json"
    launch.cluster.put(name, json.dumps(values))
    return f"{SHARED}/{name}"


def run_all(program: Program, cases: Iterable[Case]) -> list[Score]:
    """Run the program on each case, and print a line for each."""
    scores = []
    for case in cases:
        try:
            if reason := unfit(case.needs):
                raise LabUnavailable(reason)
            scores.append(program.on(case))
        except LabUnavailable as err:
            _say(f"{case.name:<60}  skipped: {err}")
            continue
        _say(f"{case.name:<60}  {scores[-1].words()}")
    return scores


def chosen(only: str | None) -> list[Case]:
    """Return the cases that every program can be given: failures, launched by flags, that no tool itself causes."""
    return [
        case for case in ALL_CASES
        if matches(only, case.name) and case.style in STYLES and case.severity == "fail" and not case.killed
    ]  # fmt: skip


def tally(scores: Sequence[Score]) -> str:
    counts = (sum(score.right for score in scores), sum(s.cause for s in scores), sum(s.node for s in scores))
    return "of {} faults: {} found, {} with the cause, {} with exactly the nodes".format(len(scores), *counts)


def compare(limit: float, at_once: int) -> str:
    """Return the table of all programs on NINE faults and a healthy cluster, in Markdown."""
    by_name = {case.name: case for case in ALL_CASES}
    cases = [*(by_name[name] for name in NINE), HEALTHY]
    absent = {} if DLROVER.exists() else {"dlrover": "not installed"}

    def cell(pair: tuple[Case, str]) -> str:
        case, name = pair
        try:
            words = absent.get(name) or Program(*PROGRAMS[name], limit).on(case).words()
        except LabUnavailable as err:
            words = f"skipped: {err}"
        _say(f"{name:<11} {case.name:<60}  {words}")
        return words

    with ThreadPoolExecutor(at_once) as pool:
        cells = list(pool.map(cell, [(case, name) for case in cases for name in PROGRAMS]))
    lines = [["fault", *(TITLES.get(name, name) for name in PROGRAMS)], ["---"] * (1 + len(PROGRAMS))]
    lines += [[case.name, *cells[i * len(PROGRAMS) :][: len(PROGRAMS)]] for i, case in enumerate(cases)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table}\n\n{at_once} at once. A program that has not ended after {limit:g} s does not end. {COMPARED_HOW}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Run the faults of the lab with any program.")
    parser.add_argument("--program", help=f"a command, or one of {', '.join(PROGRAMS)}")
    parser.add_argument("--adapter", choices=ADAPTERS, default="status")
    parser.add_argument("--only", metavar="PATTERN", help="only the cases whose names hold or match this")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for one case")
    parser.add_argument("--compare", action="store_true", help="all programs on nine faults, as a table")
    parser.add_argument("--at-once", type=int, default=1, help="clusters of --compare at the same time")
    flags = parser.parse_args(words)
    if reason := why_not():
        sys.stderr.write(f"{reason}\n")
        return 2
    if flags.compare:
        table = compare(flags.limit, flags.at_once)
        COMPARED.write_text(f"{table}\n")
        _say(table)
        return 0
    if not flags.program:
        parser.error("give --program or --compare")
    command, adapter = PROGRAMS.get(flags.program, (flags.program, flags.adapter))
    scores = run_all(Program(command, adapter, flags.limit), chosen(flags.only))
    _say(tally(scores))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
