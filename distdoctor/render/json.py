"""The report as JSON: one document, with the field names that programs depend on. Changes are additive only."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from distdoctor.model.findings import Finding, Fix
from distdoctor.model.report import Report
from distdoctor.render.style import PLAIN, Style


def render(report: Report, style: Style = PLAIN) -> str:
    """The document, indented, in ASCII, with a newline at its end. It is all there whatever the style."""
    text = json.dumps(plain(document(report)), indent=2, allow_nan=False)
    return text.replace("\x7f", "\\u007f") + "\n"  # the one control character that JSON does not escape


def document(report: Report) -> dict[str, Any]:
    """The document as plain values."""
    return {
        "schema_version": report.schema_version,
        "verdict": report.verdict,
        "distdoctor": report.distdoctor,
        "torch": report.torch,
        "started_at": report.started_at,
        "seconds": report.seconds,
        "plan": report.plan,
        "nodes": [asdict(node) for node in report.nodes],
        "stages": [asdict(stage) for stage in report.stages],
        "findings": [_finding(finding) for finding in report.findings],
        "ignored": [_finding(finding) for finding in report.ignored],
        "notes": list(report.notes),
        "details": report.details,
        "checks": [asdict(check) for check in report.checks],
        "candidates": [asdict(candidate) for candidate in report.candidates],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id or finding.check,
        "check": finding.check,
        "severity": finding.severity,
        "title": finding.title,
        "summary": finding.summary,
        "nodes": list(finding.nodes),
        "ranks": list(finding.ranks),
        "local_ranks": list(finding.local_ranks),
        "links": [list(link) for link in finding.links],
        "blame": finding.blame,
        "matters": finding.matters,
        "evidence": list(finding.evidence),
        "because_of": finding.because_of,
        "restart": finding.restart,
        "docs_url": finding.docs_url,
        "fixes": [_fix(fix) for fix in finding.fixes],
    }


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "option": fix.option,
        "text": fix.text,
        "env": dict(fix.env),
        "flags": dict(fix.flags),
        "commands": list(fix.commands),
        "nodes": list(fix.nodes),
        "verified": fix.verified,
    }


def plain(value: Any) -> Any:
    """``value`` with what JSON cannot say (NaN, infinity, tuples as keys) as null or text."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
