"""What a report on logs says that one on facts does not: what was read, what it may be, what to get next."""

from __future__ import annotations

import shlex
from itertools import groupby

from distdoctor.model.report import Report
from distdoctor.model.sanitize import clean
from distdoctor.model.stages import LOG_STAGES
from distdoctor.render.marks import STYLES
from distdoctor.render.page import Page
from distdoctor.render.words import count

_SAID = {
    "fail": "the logs show how the job failed",
    "incomplete": "the logs do not show why",
    "warn": "no failure in this",
    "pass": "no failure in this; the job ended",
}
_WORDS = {"warn": "NO FAILURE SEEN", "incomplete": "CANNOT TELL"}


def is_on_logs(report: Report) -> bool:
    """Whether it is on logs alone, without a plan to talk of."""
    return not report.plan and "logs" in report.details


def _hosts_out_of_reach(report: Report) -> bool:
    """Whether all that is found is about hosts whose logs did not come."""
    return all(one.check.startswith(f"{LOG_STAGES[0]}/") for one in report.findings)


def word(report: Report) -> str:
    """The verdict in one or two words."""
    if report.verdict == "pass":
        return "NO FAILURE SEEN"
    return _WORDS.get(report.verdict, report.verdict.upper())


def write_head(page: Page, report: Report, dot: str) -> None:
    """What was read, and what came of it."""
    logs = report.details["logs"]
    lines = sum(source.get("lines", 0) for source in logs.values())
    parts = [f"distdoctor {clean(report.distdoctor)}", count(len(logs), "file"), count(lines, "line")]
    page.prose((dot.join(parts), "bold"), hang=2)
    said = _SAID[report.verdict]
    if report.verdict == "incomplete" and not report.candidates:
        judged = report.findings and not _hosts_out_of_reach(report)
        said = "the logs show who is missing, not why" if judged else "not everything could be looked at"
    page.prose((f"{word(report)}: ", STYLES[report.verdict]), said, hang=2)


def write_candidates(page: Page, report: Report, program: str) -> None:
    """What it may be, likeliest first."""
    for number, one in enumerate(report.candidates):
        page.blank()
        page.prose((f"? {'it may be' if number == 0 else 'or'} ", "yellow"), (clean(one.check), "bold"), hang=2)
        page.prose(("  for it: ", "dim"), clean(one.why), hang=10)
        if one.against:
            page.prose(("  against: ", "dim"), clean(one.against), hang=11)
        page.prose(("  get next: ", "dim"), clean(one.next), hang=12)
        if one.command:
            page.line((f"      {clean(one.command)}", "bold"))
    if report.candidates:
        page.line(("  more: ", "dim"), f"{program} explain {clean(report.candidates[0].check)}")


def write_lines(page: Page, report: Report) -> None:
    """What ``-v`` adds: what NCCL said of itself, and every line that is known with what it proves."""
    settings, lines = report.details.get("settings") or {}, report.details.get("lines") or []
    if settings:
        page.blank()
        page.line(("settings, as the logs tell them", "dim"))
        for name, value in settings.items():
            page.prose((f"  {clean(name)}: {clean(value)}", "dim"), hang=4)
    if lines:
        page.blank()
        page.line(("lines that are known", "dim"))
    for (file, number, shows), group in groupby(lines, key=lambda line: (line["file"], line["line"], line["shows"])):
        same = [*group]
        one, checks = same[0], ", ".join(dict.fromkeys(line["check"] for line in same))
        who = f"rank {one['rank']}: " if one["rank"] is not None else f"{one['host']}: " if one["host"] else ""
        often = f" ({one['count']} times)" if one["count"] > 1 else ""
        page.prose((f"  {file}:{number}: {shows}, {checks}: {who}{one['text']}{often}", "dim"), hang=4)
        for why in dict.fromkeys(line["why"] for line in same if line["why"]):
            page.prose((f"    {'why' if shows == 'noise' else 'but'}: {why}", "dim"), hang=6)


def next_step(report: Report, program: str) -> tuple[str, list[str]]:
    """The one thing to do now, and the line for it."""
    roots = [finding for finding in report.findings if finding.because_of is None]
    if report.verdict == "fail" and roots:
        again = {
            "no": "starting again as it was will not help",
            "yes": "starting again as it was may help",
            "other-nodes": "starting again on other nodes may help",
        }
        return f"apply the fix above; {again.get(roots[0].restart, again['no'])}", []
    if report.candidates:
        first = report.candidates[0]
        words = f"get {first.next}, and diagnose all of it together"
        return words, [first.command or shlex.join([*program.split(), "diagnose", "LOGS..."])]
    if roots and _hosts_out_of_reach(report):
        return "apply the fix above, then diagnose all of it again", []
    if report.verdict == "incomplete":
        return "diagnose the logs of all ranks and nodes together", [
            shlex.join([*program.split(), "diagnose", "LOGS..."])
        ]
    return "nothing to mend is seen here; if the job hangs, look at it while it does", []
