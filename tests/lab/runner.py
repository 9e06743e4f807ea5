"""Starts distdoctor on every host of a launch at once, and compares what it says with what a case expects."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lab.cases import NODES_MISSING, Case
from tests.lab.cluster import ROOT, SHARED, Cluster, Process, clean_environment
from tests.lab.launch import Launch, Start
from tests.lab.speed import slowness
from tests.programs import missing

RUN_LIMIT = 75.0
"""Seconds after which a run is killed: longer than any case may take."""
SO_FAR = 5.0
"""Seconds within which "so far" must be said."""
JSON = dict[str, Any]
OF_THE_SHELL = ("ulimit ", "export ")
"""Commands that change the shell which starts the job, and nothing else."""


@dataclass
class Ended:
    """How one start ended. Times are in seconds from the last start of the run."""

    start: Start
    status: int = 0
    report: JSON | None = None
    reported_at: float | None = None
    """When the first byte of its report came."""
    ended_at: float = 0.0
    stdout: str = ""
    stderr: list[tuple[float, str]] = field(default_factory=list)
    """Its lines on stderr, each with the time when it came."""

    @property
    def name(self) -> str:
        """The host's name."""
        return self.start.host.name


@dataclass
class Run:
    """One run of a launch: how every start ended, and what ``diagnose`` says of all their facts together."""

    ended: list[Ended]
    diagnosis: JSON | None = None
    saved: dict[str, bytes] = field(default_factory=dict)
    """The facts that its processes saved, by the names of the files."""

    def first_naming(self, check: str) -> float | None:
        """When the first report with ``check`` as a root came, None if none did."""
        times = [e.reported_at for e in self.ended if e.report and check in root_checks(e.report)]
        return min((t for t in times if t is not None), default=None)

    def describe(self) -> str:
        """Everything it printed, for the message of a comparison that failed."""
        lines = []
        for one in self.ended:
            lines.append(f"--- {one.name}: status {one.status}, ended at {one.ended_at:.1f} s")
            lines += [f"    {at:5.1f}  {line}" for at, line in one.stderr[-25:]]
            lines.append(summary(one.report) if one.report else f"    no report: {one.stdout[:600]!r}")
        lines += ["--- diagnose", summary(self.diagnosis) if self.diagnosis else "    nothing"]
        return "\n".join(lines)


def roots(report: JSON) -> list[JSON]:
    """The findings that follow from no other."""
    return [f for f in report["findings"] if f["because_of"] is None]


def root_checks(report: JSON) -> set[str]:
    """The check ids of the roots."""
    return {f["check"] for f in roots(report)}


def summary(report: JSON) -> str:
    """A report in a few lines."""
    lines = [f"    verdict {report['verdict']} after {report['seconds']:.1f} s"]
    for f in report["findings"]:
        cause = f" (because of {f['because_of']})" if f["because_of"] else ""
        lines.append(f"    {f['severity']} {f['id']} {f['nodes']} {f['blame']}{cause}: {f['summary']}")
        lines += [f"        fix {x['option']} {x['nodes']} {x['env'] or x['flags'] or x['commands'] or x['text']}"
                  for x in f["fixes"]]  # fmt: skip
    return "\n".join(lines)


def run(launch: Launch, diagnose: bool = True) -> Run:
    """Start everything that is to be started, wait for its end and collect what it said. Kills what takes too long."""
    place = Path(tempfile.mkdtemp(prefix="saved-", dir=launch.cluster.shared))
    place.chmod(0o777)
    try:
        ended = _run(launch, f"{SHARED}/{place.name}/")
        files = sorted(place.glob("*"))
        saved = {file.name: file.read_bytes() for file in files}
        return Run(ended, diagnosed(files) if diagnose and files else None, saved)
    finally:
        shutil.rmtree(place)


def diagnosed(files: Sequence[Path]) -> JSON:
    """What ``distdoctor diagnose`` says of these files. Raises RuntimeError where it says nothing."""
    command = [sys.executable, "-m", "distdoctor", "diagnose", "--json", *map(str, files)]
    env = {**clean_environment(), "TMPDIR": tempfile.gettempdir()}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=30)
    try:
        document: JSON = json.loads(done.stdout)
    except ValueError:
        raise RuntimeError(f"diagnose: status {done.returncode}: {done.stderr or done.stdout}") from None
    return document


def _run(launch: Launch, place: str) -> list[Ended]:
    starts = sorted((s for s in launch.starts if s.started), key=lambda s: s.delay)
    began = time.monotonic()
    running: list[tuple[Process, Ended]] = []
    threads: list[threading.Thread] = []
    # Reading starts before the time of the last start is known: times are taken absolute and shifted at the end.
    for start in starts:
        time.sleep(max(0.0, began + start.delay - time.monotonic()))
        process, ended = launch.popen(start, "--json", "--save", place), Ended(start)
        running.append((process, ended))
        for reader in (_read_report, _read_lines):
            threads.append(threading.Thread(target=reader, args=(process, ended), daemon=True))
            threads[-1].start()
    last = time.monotonic()
    for process, ended in running:
        try:
            process.wait(timeout=max(0.1, last + RUN_LIMIT - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
        ended.status = process.wait()
        ended.ended_at = min(ended.ended_at or time.monotonic(), time.monotonic()) - last
    for thread in threads:
        thread.join(timeout=5)
    for _, ended in running:
        ended.stderr = [(at - last, line) for at, line in ended.stderr]
        ended.reported_at = ended.reported_at - last if ended.reported_at else None
        ended.report = _parsed(ended.stdout)
    return [ended for _, ended in running]


def _read_report(process: Process, ended: Ended) -> None:
    assert process.stdout is not None
    first = process.stdout.read(1)
    if first:
        ended.reported_at = time.monotonic()
    ended.stdout = first + process.stdout.read()
    ended.ended_at = time.monotonic()


def _read_lines(process: Process, ended: Ended) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        ended.stderr.append((time.monotonic(), line.rstrip("\n")))


def _parsed(text: str) -> JSON | None:
    try:
        report: JSON = json.loads(text)
    except ValueError:
        return None
    return report


# -- what a case expects ----------------------------------------------------------------------------------------------


def differences(case: Case, run: Run) -> list[str]:
    """How the run is not *exact*, in words; empty where it is."""
    return [*_diagnosis(case, run), *_live(case, run), *_times(case, run)]


def _diagnosis(case: Case, run: Run) -> list[str]:
    if run.diagnosis is None:
        return ["no facts were saved"]
    found, expected = roots(run.diagnosis), {root.check: root for root in case.roots}
    wrong = [f"diagnose names the root {f['id']} on {f['nodes']}" for f in found if f["check"] not in expected]
    for root in expected.values():
        mine = [f for f in found if f["check"] == root.check]
        if not mine:
            wrong.append(f"diagnose does not name {root.check}")
            continue
        blamed = {node for f in mine for node in f["nodes"]}
        if blamed != set(root.blamed):
            wrong.append(f"diagnose blames {sorted(blamed)} for {root.check}, not {sorted(root.blamed)}")
        wrong += [f"severity {f['severity']}, not {root.severity}" for f in mine if f["severity"] != root.severity]
        wrong += [f"blame {f['blame']}, not {root.blame}" for f in mine if f["blame"] != root.blame]
        if case.verified and not all(fix["verified"] for f in mine for fix in f["fixes"] if fix["option"] == 1):
            wrong.append("option 1 is not verified")
    return wrong


def _live(case: Case, run: Run) -> list[str]:
    wrong = []
    expected_status = {"pass": 0, "warn": 0, "fail": 1, "incomplete": 3}
    for one in run.ended:
        if one.report is None:
            if case.style in ("node", "unset", "pet") and one.name not in case.killed:
                wrong.append(f"{one.name} printed no report")
            continue
        if others := root_checks(one.report) - {NODES_MISSING, *(root.check for root in case.roots)}:
            wrong.append(f"{one.name} names the root {sorted(others)}")
        if not root_checks(one.report) and "--until" not in case.flags:
            wrong.append(f"{one.name} names no root")
        if case.style in ("node", "unset", "pet", "rank") and one.status != expected_status[one.report["verdict"]]:
            wrong.append(f"{one.name}: verdict {one.report['verdict']} with status {one.status}")
    if not any(one.report for one in run.ended):
        wrong.append("nobody printed a report")
    elif case.live and not any(one.report and case.root in root_checks(one.report) for one in run.ended):
        wrong.append(f"no live report names {case.root}")
    return wrong


def _times(case: Case, run: Run) -> list[str]:
    wrong = []
    at = run.first_naming(case.root)
    if case.live and at is not None and at > case.bound and at > case.bound * (slow := slowness()):
        wrong.append(f"named after {at:.1f} s, the bound is {case.bound:.1f} s (the machine is {slow:.1f} x slower)")
    if case.curable:
        so_far = [t for one in run.ended for t, line in one.stderr if "so far" in line]
        if not so_far or (min(so_far) > SO_FAR and min(so_far) > SO_FAR * slowness()):
            wrong.append(f"'so far' is not on stderr within 5 s: {so_far}")
    return wrong


def passes(case: Case, run: Run) -> list[str]:
    """How the run after the fix is not a pass, in words; empty where it is."""
    wrong, cured = [], {root.check for root in case.roots}
    for one in run.ended:
        if one.status != 0:
            wrong.append(f"after the fix {one.name} ends with status {one.status}")
        if one.report is None:
            continue
        if one.report["verdict"] not in ("pass", "warn"):
            wrong.append(f"after the fix {one.name} says {one.report['verdict']}")
        wrong += [f"after the fix {one.name} has {f['id']}" for f in one.report["findings"]
                  if f["severity"] == "fail" or f["check"] in cured]  # fmt: skip
    if not any(one.report for one in run.ended):
        wrong.append("after the fix nobody printed a report")
    return wrong


# -- fixes ------------------------------------------------------------------------------------------------------------


def apply(launch: Launch, findings: Sequence[JSON], option: int = 1) -> list[str]:
    """Do what the fixes say, on the nodes they say. Gives what could not be done, in words."""
    failed = []
    for fix in (fix for finding in findings for fix in finding["fixes"] if fix["option"] == option):
        for start in _starts(launch, fix["nodes"]):
            start.env |= fix["env"]
            for flag, value in fix["flags"].items():
                launch.set_flag(start, flag, value)
            start.before += tuple(command for command in fix["commands"] if command.startswith(OF_THE_SHELL))
        for host in {start.host.name: start.host for start in _starts(launch, fix["nodes"])}.values():
            for command in (c for c in fix["commands"] if not c.startswith(OF_THE_SHELL)):
                done = host.sh(command)
                if done.returncode:
                    failed.append(f"{host.name}: {command}: status {done.returncode}: {done.stderr.strip()}")
    return failed


def _starts(launch: Launch, nodes: Sequence[str]) -> list[Start]:
    """The starts on these nodes (all for none named); ``name#rank`` is the node of that rank on that host."""
    found = []
    for start in launch.starts:
        for node in nodes:
            name, _, rank = node.partition("#")
            if name == start.host.name and rank in ("", str(start.node_rank)):
                found.append(start)
    return found if nodes else launch.starts


def has_something_to_do(findings: Sequence[JSON], option: int = 1) -> bool:
    """Whether the fixes of this option change anything, or are text only."""
    fixes = [fix for finding in findings for fix in finding["fixes"] if fix["option"] == option]
    return any(fix["env"] or fix["flags"] or fix["commands"] for fix in fixes)


@dataclass
class Result:
    """What a case came to."""

    complaints: list[str]
    """All that is wrong with it; empty where it is exact."""
    named: list[JSON]
    """The roots of the diagnosis."""
    seconds: float | None
    """From the last node's start (from the end of ``--wait`` where waiting goes on to its end) to the verdict: the
    first report that names the root, or where none can, the last report."""
    cured: bool
    """The printed fix was carried out and the run after it passed."""
    saved: dict[str, bytes] = field(default_factory=dict)
    """The facts that the run with the fault saved, where ``diagnose`` says of them what is expected."""


def check_case(case: Case) -> list[str]:
    """Build the cluster, inject the fault, run, compare, apply the printed fix, run again. Gives all that is wrong."""
    return examine(case).complaints


def examine(case: Case) -> Result:
    """The same, with what was named and when."""
    cured = False
    with Cluster(case.hosts, subnets=case.subnets, interface=case.interface) as cluster:
        launch = Launch(cluster, case.style, case.nproc, case.check_flags, master=case.master)
        case.fault(launch)
        before = set(cluster.leftovers())
        first = run(launch)
        wrong = [*differences(case, first), *_left(cluster, before)]
        if wrong:
            _say(first.describe())
        expected = {root.check for root in case.roots}
        findings = [f for f in roots(first.diagnosis) if f["check"] in expected] if first.diagnosis else []
        for option in case.options if findings else ():
            fixed = launch.copy()
            if case.by_hand is not None:
                case.by_hand(fixed)
                wrong += apply(fixed, [f for f in findings if f["check"] != case.root], option)
            elif not has_something_to_do(findings, option):
                wrong.append(f"option {option} is text only, and the case does not say how to carry it out")
                continue
            else:
                wrong += apply(fixed, findings, option)
            # Nobody is missing now; a slow machine gets the time it needs.
            fixed.check_flags = (*case.flags, "--wait", "30")
            second = run(fixed, diagnose=False)
            complaints = [*passes(case, second), *_left(cluster, before)]
            if complaints:
                _say(f"=== after the fix (option {option})\n{second.describe()}")
            wrong += complaints
            cured = not complaints and (cured or option == case.options[0])
    saved = {} if _diagnosis(case, first) else first.saved
    return Result(wrong, roots(first.diagnosis) if first.diagnosis else [], _verdict_at(case, first), cured, saved)


def _verdict_at(case: Case, run: Run) -> float | None:
    at = run.first_naming(case.root)
    if at is None:
        at = max((one.reported_at for one in run.ended if one.reported_at is not None), default=None)
    return None if at is None else max(0.0, at - case.wait) if case.curable else at


def torchs_own(what: str) -> bool:
    """Whether a file left behind is one of those that torchrun itself always leaves."""
    return "/torchelastic_" in what or "/torchinductor_" in what


def unfit(needs: Sequence[str]) -> str | None:
    """Why what needs these programs cannot be made here, None where it can."""
    return missing(needs)


def _left(cluster: Cluster, before: set[str]) -> list[str]:
    """What the run left behind, but for torchrun's own folders. A port that is being closed is given a moment."""
    deadline = time.monotonic() + 2
    while left := sorted(what for what in set(cluster.leftovers()) - before if not torchs_own(what)):
        if time.monotonic() > deadline:
            return [f"left behind: {what}" for what in left]
        time.sleep(0.05)
    return []


def main(words: Sequence[str]) -> None:
    """Run the cases whose names hold any of the words (all for none) and print how each ends."""
    from tests.lab.field_cases import ALL_CASES

    for case in (case for case in ALL_CASES if not words or any(word in case.name for word in words)):
        began = time.monotonic()
        _say(f"\n##### {case.name}")
        try:
            complaints = check_case(case)
        except (RuntimeError, OSError) as err:
            complaints = [f"{type(err).__name__}: {err}"]
        _say(f"##### {case.name}: {complaints or 'exact'} ({time.monotonic() - began:.0f} s)")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
