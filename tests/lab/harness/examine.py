"""A case from the cluster to the run after the fix."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.helpers.programs import missing
from tests.lab.harness.case import Case, slowed
from tests.lab.harness.cluster import Cluster
from tests.lab.harness.exact import differences, misjudged, passes
from tests.lab.harness.fixes import apply, has_something_to_do
from tests.lab.harness.launch import Launch
from tests.lab.harness.runner import JSON, Run, roots, run


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
    slowness: float = 1.0
    """How many times slower others made this machine during the run with the fault."""


def check_case(case: Case) -> list[str]:
    """Build the cluster, inject the fault, run, compare, apply the printed fix, run again. Gives all that is wrong."""
    return examine(case).complaints


def examine(case: Case, slow: float = 1.0) -> Result:
    """The same, with what was named and when, on a machine that others make ``slow`` times slower."""
    cured, case = False, slowed(case, slow)
    with Cluster(case.hosts, subnets=case.subnets, interface=case.interface) as cluster:
        launch = Launch(cluster, case.style, case.nproc, case.check_flags, master=case.master, line=case.line)
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
                before |= set(cluster.leftovers())  # a server that a person starts is to stay
                rest = findings if case.printed_too else [f for f in findings if f["check"] != case.root]
                wrong += apply(fixed, rest, option)
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
    saved = first.saved if first.diagnosis and not misjudged(case, first.diagnosis) else {}
    named = roots(first.diagnosis) if first.diagnosis else []
    slowness = first.slowness(max((one.ended_at for one in first.ended), default=0.0))
    return Result(wrong, named, _verdict_at(case, first), cured, saved, slowness)


def _verdict_at(case: Case, run: Run) -> float | None:
    at = run.first_naming(case.root)
    if at is None:
        at = max((one.reported_at for one in run.ended if one.reported_at is not None), default=None)
    return None if at is None else max(0.0, at - case.wait) if case.curable else at


def torchs_own(what: str) -> bool:
    """Return whether a file left behind is one of those that torchrun itself always leaves."""
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


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
