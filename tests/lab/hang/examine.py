"""Runs the jobs of the table, looks at them with ``distdoctor hang`` where they are held, and compares what it says."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.helpers.report_schema import report_in
from tests.lab.hang.acts import LATE
from tests.lab.hang.row import Job, Look, Row
from tests.lab.hang.running import Running
from tests.lab.hang.table_words import MISSING, NODES, REFUSED, USER_CODE
from tests.lab.harness.cluster import Cluster
from tests.lab.harness.host import Host
from tests.lab.harness.launch import DISTDOCTOR, Launch
from tests.lab.harness.runner import JSON, roots

TIMES = 20
"""How often in a row each host is inspected while a job is held that goes on afterwards."""
PAUSE = 4.0
"""Seconds of standing still after which, with the looks, nobody may take it for a pause."""
COMES_WITHIN, QUIET_WITHIN, ENDS_WITHIN, LIMIT = 600.0, 60.0, 600.0, 60.0
"""Seconds: for a job to come to a step, to stand still there, to go on from there, and for one inspection."""
STILL = 0.2
"""Seconds of processor time per second: a rank that is held uses less, one of a job that works uses more."""
AGAIN = """
import sys
from distdoctor.hang.inspect import Wanted, inspect
for _ in range(int(sys.argv[1])):
    inspect(Wanted(apart=0.05))
"""
_STARTING, _LOOKING = threading.Semaphore(3), threading.Semaphore(3)
"""So many jobs start at the same time, and so many hosts are looked at: each process imports torch, or Python."""


@dataclass
class Result:
    """What came of one look."""

    job: str
    row: Row
    look: Look | None
    report: JSON | None = None
    seconds: float | None = None
    complaints: list[str] = field(default_factory=list)
    text: str = ""


def run_all(
    jobs: Sequence[Job],
    chosen: Collection[str],
    *,
    at_once: int = 4,
    times: int = TIMES,
    tell: Callable[[list[Result]], object] = list,
) -> list[Result]:
    """Run the jobs that have a chosen row, several at once. Gives the results in the order of the table; ``tell`` gets
    those of each job as soon as it has ended."""
    wanted = [job for job in jobs if any(isinstance(row, Row) and row.name in chosen for row in job.rows)]

    def run(job: Job) -> list[Result]:
        results = run_job(job, chosen, times)
        tell(results)
        return results

    with ThreadPoolExecutor(at_once) as pool:
        return [result for results in pool.map(run, wanted) for result in results]


def run_job(job: Job, chosen: Collection[str], times: int = TIMES) -> list[Result]:
    """Run one job, and look at it where its chosen rows hold it; what goes wrong with it is a result, too."""
    results: list[Result] = []
    try:
        with Cluster(job.hosts, subnets=job.subnets) as cluster:
            if job.fault is not None:
                job.fault(Launch(cluster))
            _through(Running(job, cluster), chosen, times, results)
    except (RuntimeError, OSError) as err:
        row = next(row for row in job.rows if isinstance(row, Row))
        results.append(Result(job.name, row, None, complaints=[f"the job itself: {err}"]))
    return results


def _through(running: Running, chosen: Collection[str], times: int, results: list[Result]) -> None:
    job = running.job
    last = max(i for i, row in enumerate(job.rows) if isinstance(row, Row) and row.name in chosen)
    with _STARTING:
        running.prepare(job.steps[0])
        running.start(*(host for host in range(job.hosts) if host not in job.late))
        _arrive(running, 0, job.rows[0], COMES_WITHIN)
    for number, row in enumerate(job.rows):
        _arrive(running, number, row, COMES_WITHIN)
        if number + 1 < len(job.rows):
            running.prepare(job.steps[number + 1])
        if isinstance(row, str):
            running.release(row)
            continue
        if row.before:
            if row.step.startswith("init"):
                verify_held(running, row, ())  # not in the middle of its start
            row.before(running)
        mine: list[Result] = []
        if row.name in chosen:
            verify_held(running, row, row.gone)
            if any(look.check in (MISSING, NODES, REFUSED) for look in row.looks):
                time.sleep(LATE)
            elif not row.moves and not row.at_once:
                time.sleep(PAUSE)
            mine = [_looked(running, row, look, times) for look in row.looks]
            if row.together is not None:
                mine.append(_together(running, row, row.together))
            results += mine
        if row.last or (number == last and any(isinstance(r, Row) and r.last for r in job.rows)):
            return
        if row.after:
            row.after(running)
        running.release(row.step)
        if mine and number + 1 < len(job.rows):
            _goes_on(running, number + 1, mine)
    if wrong := running.ends_well(ENDS_WITHIN):
        for result in results:
            result.complaints.append(f"the job does not end well afterwards: {wrong}")


def _goes_on(running: Running, step: int, results: list[Result]) -> None:
    """Complain where the job, once released, does not come to its next step: each checks the sum of the one before."""
    try:
        running.wait_for(step, set(range(running.job.world)), ENDS_WITHIN)
    except RuntimeError as err:
        for result in results:
            result.complaints.append(f"the job does not go on after {TIMES} inspections: {err}")
        raise


def _arrive(running: Running, number: int, row: Row | str, seconds: float) -> None:
    if isinstance(row, Row) and row.at_once:
        return
    everyone = range(running.job.world)
    ranks = everyone if isinstance(row, str) or row.held is None else row.held
    running.wait_for(number, set(ranks), seconds)
    if not ranks and 0 not in running.job.late:
        running.wait_for_port(seconds)


def verify_held(running: Running, row: Row, gone: Sequence[int]) -> None:
    """By plain observation: the job is held as the row means. Raises RuntimeError where it is not.

    Where it hangs, no rank comes further, uses the processor or ends, for a second; those of ``gone`` have ended.
    """
    if row.moves or row.busy:
        return
    deadline = time.monotonic() + QUIET_WITHIN
    while True:
        before = running.marks()
        present = {rank for rank in before if rank not in gone}
        working = {rank: share for rank, share in running.busy(present, 1.0).items() if share > STILL}
        working |= dict.fromkeys(running.would_run(present), 1.0)
        if running.marks() == before and not working and not any(map(running.lives, gone)):
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"{row.name}: it is not held: {before}, then {running.marks()}; {working} work")


def _looked(running: Running, row: Row, look: Look, times: int) -> Result:
    host = running.cluster[look.on]
    with _LOOKING:
        began = time.monotonic()
        command = [*DISTDOCTOR, "hang", "--json", *look.flags]
        if row.together is not None:
            (running.folder / "saved").mkdir(exist_ok=True)
            command += ["--save", f"{running.inside}/saved"]
        result = Result(running.job.name, row, look)
        try:
            done = host.run(command, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            result.complaints.append(f"no answer within {LIMIT:g} s")
            return result
        result.seconds = time.monotonic() - began
        result.text = done.stderr
        if look.nothing:
            result.complaints += [] if done.returncode == 2 else [f"status {done.returncode} where no job is"]
            return result
        try:
            result.report = report_in(done.stdout)
        except ValueError:
            result.complaints.append(
                f"no report, status {done.returncode}: {done.stdout[-300:]!r} {done.stderr[-900:]}"
            )
            return result
        result.complaints += differences(look, result.report or {}, done.returncode)
        if times > 1 and not row.last:  # what cannot go on shows nothing more however often it is looked at
            result.complaints += _again(host, times - 1)
    return result


def _together(running: Running, row: Row, look: Look) -> Result:
    """Return what is said of the facts that were saved on all hosts."""
    result = Result(running.job.name, row, look)
    began = time.monotonic()
    done = running.cluster[look.on].run([*DISTDOCTOR, "diagnose", "--json", f"{running.inside}/saved"], timeout=LIMIT)
    result.seconds = time.monotonic() - began
    try:
        result.report = json.loads(done.stdout)
    except ValueError:
        result.complaints.append(f"no report of all, status {done.returncode}: {done.stderr[-900:]}")
        return result
    result.complaints += differences(look, result.report or {}, done.returncode)
    return result


def _again(host: Host, times: int) -> list[str]:
    try:
        done = host.run([sys.executable, "-c", AGAIN, str(times)], timeout=LIMIT + 3 * times)
    except subprocess.TimeoutExpired:
        return [f"inspected again: not {times} times within {LIMIT + 3 * times:g} s"]
    return [f"inspected again: {done.stderr[-900:]}"] if done.returncode else []


def differences(look: Look, report: JSON, status: int) -> list[str]:
    """Return how a report is not what was expected of this look, in words."""
    wrong: list[str] = []
    severity = "warn" if look.late else "fail"
    failing = [finding for finding in roots(report) if finding["severity"] in (severity, "fail")]
    named = [finding["check"] for finding in failing]
    expected = [look.check] if look.check else []
    if sorted(set(named)) != expected:
        wrong.append(f"names {named or 'nothing'}, not {look.check or 'nothing'}")
    for finding in failing:
        if finding["check"] != look.check:
            continue
        if finding["severity"] != severity:
            wrong.append(f"says {finding['severity']}, not {severity}")
        if look.ranks is not None and sorted(finding["ranks"]) != sorted(look.ranks):
            wrong.append(f"blames the ranks {finding['ranks']}, not {list(look.ranks)}")
        if look.hosts and sorted(finding["nodes"]) != sorted(look.hosts):
            wrong.append(f"blames {finding['nodes']}, not {list(look.hosts)}")
    verdict = report["verdict"]
    if look.waits_for:
        warned = [sorted(f["ranks"]) for f in roots(report) if (f["severity"], f["check"]) == ("warn", USER_CODE)]
        if warned != [sorted(look.waits_for)] or verdict != "warn":
            wrong.append(f"verdict {verdict}, and says that {warned or 'nobody'} are waited for, not {look.waits_for}")
    if status != {"pass": 0, "warn": 0, "fail": 1, "incomplete": 3}[verdict]:
        wrong.append(f"verdict {verdict} with status {status}")
    if look.ask:
        text = json.dumps(report)
        if verdict != "incomplete":
            wrong.append(f"verdict {verdict}, though it cannot be known from here")
        wrong += [f"does not name {name} as a node to ask" for name in look.ask if name not in text]
    elif look.check and not look.late and verdict not in ("fail", "incomplete"):
        wrong.append(f"verdict {verdict}")
    elif (look.late or not look.check) and verdict not in ("pass", "warn"):
        wrong.append(f"verdict {verdict} of a job that is healthy, or waits")
    return wrong
