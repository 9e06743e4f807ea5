"""The report as Markdown, to paste into an issue or a pull request: short, the rest folded.

What only serves whoever has the machine, such as paths, users and the Python that was used, is left out. All that comes
from outside stands as code, so that none of it is markup, a link or a mention.
"""

from __future__ import annotations

import re

from distdoctor.model.findings import Finding
from distdoctor.model.report import Report
from distdoctor.model.text import clean
from distdoctor.render.fixes import remedies
from distdoctor.render.style import PLAIN, Style
from distdoctor.render.verdict import headline
from distdoctor.render.words import fold, link_target

MARKS = {"pass": "✅", "warn": "⚠️", "fail": "❌", "info": "ℹ️", "incomplete": "❔", "skip": "➖", "error": "❌"}
EVIDENCE = 12
"""Lines of evidence of a finding."""


def render(report: Report, style: Style = PLAIN) -> str:
    """The text, with the root causes first."""
    roots = [finding for finding in report.findings if finding.because_of is None]
    head = headline(report)
    out = [f"## {MARKS[report.verdict]} {head.word or 'Interrupted'}: {code(head.text)}", ""]
    nodes = sum(node.arrived for node in report.nodes)
    facts = [f"{nodes} of {len(report.nodes)} nodes"] if report.nodes else []
    facts += [f"torch {code(report.torch)}"] if report.torch else []
    facts += [f"distdoctor {code(report.distdoctor)}"]
    facts += [f"{report.seconds:.1f} s"] if style.given is not None else []
    out += [", ".join(facts), ""]
    for root in roots:
        out += _root(root, [finding for finding in report.findings if finding.because_of == root.id])
    out += [f"- {code(note)}" for note in report.notes]
    if report.stages:
        out += ["", "<details><summary>Stages</summary>", "", "| stage | result | seconds |", "|---|---|---|"]
        for stage in dict.fromkeys(entry.stage for entry in report.stages):
            of = [entry for entry in report.stages if entry.stage == stage]
            worst = max(of, key=lambda entry: ("skip", "pass", "warn", "error", "fail").index(entry.status))
            reason = f" {code(worst.reason)}" if worst.reason and worst.status != "pass" else ""
            result = f"{MARKS.get(worst.status, '')} {worst.status}{reason}"
            if worst.partial:
                result = f"{MARKS['skip']} {code(worst.reason)}"
            out.append(f"| {stage} | {result} | {max(entry.seconds for entry in of):.2f} |")
        out += ["", "</details>"]
    return "\n".join(out).rstrip("\n") + "\n"


def code(text: object) -> str:
    """``text`` as code, on one line, also where it holds backticks; a bar would end a table's cell."""
    said = " ".join(clean(str(text)).split()).replace("|", "¦")
    fence = "`" * (max((len(run) for run in re.findall("`+", said)), default=0) + 1)
    pad = " " if said.startswith("`") or said.endswith("`") else ""
    return f"{fence}{pad}{said}{pad}{fence}" if said else ""


def _root(root: Finding, consequences: list[Finding]) -> list[str]:
    severity = root.severity or "info"
    where = f" on {code(fold(root.nodes))}" if root.nodes else ""
    unsure = " (one of them)" if root.blame == "one-of" and len(root.nodes) > 1 else ""
    out = [f"### {MARKS[severity]} {code(root.id)}{where}{unsure}", "", block(root.summary)]
    for remedy in remedies(root):
        on = f" on {code(remedy.on)}" if remedy.on else ""
        tried = {True: " (tested here: it works)", False: " (tested here: it does not help)", None: ""}[remedy.tried]
        out += [f"**{remedy.word}{on}**{tried}: {code(remedy.text)}", ""]
        if remedy.lines:
            out += [block("\n".join(remedy.lines), "sh")]
    if root.evidence:
        shown = [*root.evidence[:EVIDENCE], *(["..."] if len(root.evidence) > EVIDENCE else [])]
        out += ["<details><summary>Evidence</summary>", "", block("\n".join(shown)), "</details>", ""]
    out += [f"- causes {code(other.id)}" for other in consequences]
    out += [f"Details: <{url}>"] if (url := link_target(root.docs_url)) else []
    return [*out, ""]


def block(text: str, language: str = "") -> str:
    """Lines as a block of code, with a fence that none of them ends."""
    said = "\n".join(map(clean, text.split("\n")))
    fence = "`" * max(3, max((len(run) for run in re.findall("`+", said)), default=0) + 1)
    return f"{fence}{language or 'text'}\n{said}\n{fence}\n"
