"""The report as GitHub Actions reads it on stdout: an annotation per root cause. The summary of the step is Markdown.

Workflow commands are lines that begin with ``::``; what comes from outside is escaped as actions/toolkit does it, and
so never begins one.
"""

from __future__ import annotations

from distdoctor.model.report import Report
from distdoctor.model.text import clean
from distdoctor.render.fixes import lines
from distdoctor.render.style import PLAIN, Style
from distdoctor.render.verdict import headline
from distdoctor.render.words import fold

SUMMARY_FILE = "GITHUB_STEP_SUMMARY"
"""The variable that names the file of the step's summary, which is appended to."""
LEVELS = {"fail": "error", "warn": "warning", "info": "notice"}


def render(report: Report, style: Style = PLAIN) -> str:
    """The annotations, and the verdict as the last of them."""
    out = []
    for finding in report.findings:
        if finding.because_of is not None:
            continue
        where = f" on {fold(finding.nodes)}" if finding.nodes else ""
        said = [finding.summary]
        for fix in finding.fixes:
            said += [f"fix: {fix.text}", *(f"  {line}" for line in lines(fix))]
        said += [f"details: {finding.docs_url}"] if finding.docs_url else []
        out.append(command(LEVELS[finding.severity or "info"], f"{finding.id}{where}", "\n".join(said)))
    if report.verdict == "incomplete" and not out:
        out.append(command("error", "distdoctor: incomplete", headline(report).text))
    out.append(command("notice", f"distdoctor: {report.verdict.upper()}", headline(report).text))
    return "\n".join(out) + "\n"


def command(level: str, title: str, message: str) -> str:
    """One workflow command."""
    return f"::{level} title={_escaped(title, more=True)}::{_escaped(message)}"


def _escaped(text: str, more: bool = False) -> str:
    said = "\n".join(map(clean, text.split("\n"))).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return said.replace(":", "%3A").replace(",", "%2C") if more else said
