"""The report as JUnit's XML: a test case for each check, so that what passed is seen, too.

A failure is what makes the job fail; a warning, a remark and a consequence stand in the output of their case. What
could not be judged is skipped, with the reason. No schema is official: this keeps to what Jenkins' xUnit plugin, GitLab
and GitHub's reporters have in common.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from distdoctor.model.findings import Finding
from distdoctor.model.report import Report
from distdoctor.model.text import clean
from distdoctor.render.fixes import lines
from distdoctor.render.style import PLAIN, Style
from distdoctor.render.verdict import headline

_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may hold (XML 1.0, 2.2)."""


def render(report: Report, style: Style = PLAIN) -> str:
    """The document. It is all there whatever the style."""
    suite = ET.Element("testsuite", name="distdoctor", timestamp=_text(report.started_at), hostname=_here(report))
    by_check = {check: [f for f in report.findings if f.check == check] for check in _checks(report)}
    status = {check.id: check for check in report.checks}
    for check, findings in by_check.items():
        section, _, name = _text(check).partition("/")
        case = ET.SubElement(suite, "testcase", classname=f"distdoctor.{section}", name=name or section, time="0")
        failures = [f for f in findings if f.severity == "fail" and f.because_of is None]
        others = [f for f in findings if f not in failures]
        if failures:
            failure = ET.SubElement(case, "failure", type=_text(check), message=_text(failures[0].summary))
            failure.text = _findings_text(failures)
        elif not findings and status[check].status == "not-judged":
            ET.SubElement(case, "skipped", message=_text(status[check].why))
        if others:
            ET.SubElement(case, "system-out").text = _findings_text(others)
    if report.verdict == "incomplete" and not any(f.severity == "fail" for f in report.findings):
        case = ET.SubElement(suite, "testcase", classname="distdoctor", name="whole", time="0")
        ET.SubElement(case, "error", type="incomplete", message=_text(headline(report).text))
    for what in ("failure", "skipped", "error"):
        name = f"{what}s" if what != "skipped" else what
        suite.set(name, str(len(suite.findall(f"testcase/{what}"))))
    suite.set("tests", str(len(suite)))
    suite.set("time", f"{report.seconds:.3f}")
    root = ET.Element("testsuites", name="distdoctor")
    root.append(suite)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _checks(report: Report) -> list[str]:
    """All that were run; of a report that does not list them, those that found something."""
    return list(dict.fromkeys([*(check.id for check in report.checks), *(f.check for f in report.findings)]))


def _findings_text(findings: Sequence[Finding]) -> str:
    parts = []
    for finding in findings:
        follows = f" (caused by {finding.because_of})" if finding.because_of else ""
        parts.append(f"{(finding.severity or 'info').upper()} {finding.id}{follows}: {finding.summary}")
        parts += [f"  evidence: {text}" for text in finding.evidence]
        parts += [f"  fix: {fix.text}" for fix in finding.fixes]
        parts += [f"    {line}" for fix in finding.fixes for line in lines(fix)]
    return _text("\n".join(parts))


def _here(report: Report) -> str:
    return _text(next((node.hostname or node.name for node in report.nodes if node.arrived), ""))


def _text(text: str) -> str:
    return _NOT_XML.sub("?", "\n".join(map(clean, text.split("\n"))))
