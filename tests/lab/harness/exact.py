"""Whether a run is *exact*: what is said of it, live and of all its facts together, is what its case expects."""

from __future__ import annotations

from tests.lab.harness.case import NODES_MISSING, Case
from tests.lab.harness.runner import JSON, Run, root_checks, roots
from tests.lab.harness.speed import slowness

SO_FAR = 5.0
"""Seconds within which "so far" must be said."""


def differences(case: Case, run: Run) -> list[str]:
    """Return how the run is not *exact*, in words; empty where it is."""
    judged = misjudged(case, run.diagnosis) if run.diagnosis is not None else ["no facts were saved"]
    return [*judged, *_live(case, run), *_times(case, run)]


def misjudged(case: Case, report: JSON) -> list[str]:
    """Return how the report on all facts of the case together is not what the case expects, in words."""
    found, expected = roots(report), {root.check: root for root in case.roots}
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
        if others := root_checks(one.report) - {NODES_MISSING, *case.alone, *(root.check for root in case.roots)}:
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
    if case.live and at is not None and at > case.bound and at > case.bound * (slow := _slowness(run, at)):
        wrong.append(f"named after {at:.1f} s, the bound is {case.bound:.1f} s (the machine is {slow:.1f} x slower)")
    if case.curable:
        so_far = [t for one in run.ended for t, line in one.stderr if "so far" in line]
        if not so_far:
            wrong.append("'so far' is not on stderr")
        elif (at := min(so_far)) > SO_FAR and at > SO_FAR * (slow := _slowness(run, at)):
            wrong.append(f"'so far' is on stderr after {at:.1f} s, not within 5 s (the machine is {slow:.1f} x slower)")
    return wrong


def _slowness(run: Run, until: float) -> float:
    """Return how slow the machine was for the run up to ``until``; as slow as it is now, where that is more."""
    return max(run.slowness(until), slowness())


def passes(case: Case, run: Run) -> list[str]:
    """Return how the run after the fix is not a pass, in words; empty where it is."""
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
