"""The report as a page of text: for a terminal, and for a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distdoctor.findings import Finding
from distdoctor.render.evidence import gathered
from distdoctor.render.fixes import write_fixes
from distdoctor.render.launch import next_step
from distdoctor.render.page import Page
from distdoctor.render.words import clean, count, fold, ranks
from distdoctor.report import Report, ReportStage
from distdoctor.stages import STAGES, needs_torch

MARKS = {"pass": "✓", "warn": "!", "fail": "✗", "skip": "-", "error": "✗", "info": "i"}
ASCII_MARKS = {"pass": "ok", "warn": "!!", "fail": "XX", "skip": "--", "error": "XX", "info": "i "}
STYLES = {
    "pass": "green",
    "warn": "yellow",
    "fail": "bold red",
    "skip": "dim",
    "error": "bold red",
    "info": "cyan",
    "incomplete": "bold yellow",
}
EVIDENCE_SHOWN = 8
"""Lines of evidence per finding without ``-v``."""
LINKS_SHOWN = 6

_MATTERS = {
    "fail": "the job would fail or hang as planned.",
    "warn": "the job would run, but by luck, slower, or not with another backend.",
    "info": "no harm to the job as planned; worth knowing.",
}


def render(
    report: Report,
    *,
    width: int = 0,
    colour: bool = False,
    ascii_only: bool = False,
    verbose: int = 0,
    quiet: bool = False,
    program: str = "distdoctor",
) -> str:
    """``report`` as text. ``width``: columns to wrap prose at, 0 for none; commands are never wrapped.

    ``quiet`` leaves the verdict and the root causes with their fixes; ``verbose`` adds all evidence, where the plan
    came from, and the values seen where all is well. ``program`` is how the doctor is started here.
    """
    writer = _Writer(report, Page(width), ASCII_MARKS if ascii_only else MARKS, verbose, program)
    writer.write(quiet)
    text = writer.page.coloured() if colour else writer.page.plain()
    return text.encode("ascii", "backslashreplace").decode() if ascii_only else text


class _Writer:
    def __init__(self, report: Report, page: Page, marks: dict[str, str], verbose: int, program: str) -> None:
        self.report, self.page, self.marks, self.verbose, self.program = report, page, marks, verbose, program
        self.dot = " - " if marks is ASCII_MARKS else " · "

    def write(self, quiet: bool) -> None:
        if not quiet:
            self._header()
            self._ladder()
        roots = [f for f in self.report.findings if f.because_of is None]
        for root in roots:
            if not quiet or root.severity != "info":
                self._root(root, [f for f in self.report.findings if f.because_of == root.id], quiet)
        if not quiet:
            self._rest()
        self.page.blank()
        self._tally(roots)

    # -- what was checked ---------------------------------------------------------------------------------------

    def _without_torch(self) -> str:
        """What is known of torch where no version of it is."""
        nodes = (self.report.details.get("nodes") or {}).values()
        if any(node.get("torch_importing") for node in nodes):
            return "torch still being imported"
        return "no torch" if any(node.get("torch_error") for node in nodes) else "torch unknown"

    def _header(self) -> None:
        plan = self.report.plan
        sources = plan.get("sources") or {}
        parts = [f"distdoctor {self.report.distdoctor}", _shape(plan)]
        backends = plan.get("backends") or []
        parts.append("backend " + " + ".join(clean(b) for b in backends) if backends else "backend unknown")
        if plan.get("master_addr"):
            host = clean(plan["master_addr"])
            host = f"[{host}]" if ":" in host else host
            source = sources.get("master_addr", "default")
            told = f" ({clean(source)})" if source != "default" else ""
            parts.append(f"master {host}:{plan.get('master_port') or 'any free port'}{told}")
        if self.report.torch or needs_torch(self.report.until):
            parts.append(f"torch {clean(self.report.torch)}" if self.report.torch else self._without_torch())
        self.page.line((self.dot.join(parts), "bold"))
        if self.verbose:
            for name, source in sources.items():
                self.page.line((f"  {name} = {clean(plan.get(name))}   from {clean(source)}", "dim"))
        missing = [node.name for node in self.report.nodes if not node.arrived]
        if missing:
            here = [node.name for node in self.report.nodes if node.arrived]
            self.page.line(f"here: {fold(here)}{self.dot}", (f"not here: {fold(missing)}", "bold red"))
        self.page.blank()

    def _ladder(self) -> None:
        several = len({stage.node for stage in self.report.stages}) > 1
        for name in STAGES:
            groups: dict[tuple[str, str], list[ReportStage]] = {}
            for stage in self.report.stages:
                if stage.stage == name:
                    groups.setdefault((stage.status, stage.reason if stage.status != "pass" else ""), []).append(stage)
            title = name
            for (status, reason), members in groups.items():
                seconds = max(stage.seconds for stage in members)
                where = fold(stage.node for stage in members) if several and len(groups) > 1 else ""
                # A stage that a finding explains does not need the exception's whole text here.
                said = reason if status in ("skip", "error") or self.verbose else _short(reason)
                self.page.line(
                    (f"{self.marks[status]} ", STYLES[status]),
                    (f"{title:<12}", "" if status in ("pass", "skip") else STYLES[status]),
                    (f"{seconds:7.2f} s" if status != "skip" else " " * 9, "dim"),
                    f"  {where}" if where else "",
                    (f"  {clean(said)}" if said else "", "dim" if status == "skip" else ""),
                )
                title = ""

    # -- findings -----------------------------------------------------------------------------------------------

    def _root(self, finding: Finding, consequences: Sequence[Finding], quiet: bool) -> None:
        page, severity = self.page, finding.severity or "info"
        page.blank()
        page.line(
            (f"{self.marks[severity]} {severity.upper()} ", STYLES[severity]),
            (clean(finding.id), "bold"),
            f": {clean(finding.title)}",
        )
        page.prose(clean(finding.summary), "  ")
        page.line(("  where: ", "dim"), self._where(finding))
        if not quiet:
            self._evidence(finding)
            page.line(("  why it matters: ", "dim"), _MATTERS[severity])
        write_fixes(page, self.report, finding)
        if quiet:
            return
        for other in consequences:
            summary = other.summary if self.verbose else _short(other.summary)
            page.prose(f"follows from it: {clean(other.id)}: {clean(summary)}", "  ", "    ", "dim")
        page.line(("  more: ", "dim"), f"{self.program} explain {clean(finding.check)}")

    def _where(self, finding: Finding) -> str:
        parts = []
        if finding.nodes:
            parts.append(
                ("one of " if finding.blame == "one-of" and len(finding.nodes) > 1 else "") + fold(finding.nodes)
            )
        if finding.ranks:
            parts.append(ranks(finding.ranks))
        if finding.links:
            shown = finding.links if self.verbose else finding.links[:LINKS_SHOWN]
            text = ", ".join(f"{clean(a)} -> {clean(b)}" for a, b in shown)
            hidden = len(finding.links) - len(shown)
            parts.append(
                ("one of " if finding.blame == "one-of" and not finding.nodes else "")
                + "links "
                + text
                + (f" and {hidden} more" if hidden else "")
            )
        return self.dot.join(parts) or "the whole job"

    def _evidence(self, finding: Finding) -> None:
        lines = gathered(finding.evidence, [node.name for node in self.report.nodes])
        shown = lines if self.verbose else lines[:EVIDENCE_SHOWN]
        for number, line in enumerate(shown):
            self.page.prose(clean(line), "  saw: " if number == 0 else "       ", "         ")
        if len(shown) < len(lines):
            self.page.line((f"       and {count(len(lines) - len(shown), 'line')} more: -v", "dim"))

    # -- the end ------------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        if self.report.ignored:
            self.page.blank()
            for finding in self.report.ignored:
                self.page.prose(f"ignored: {clean(finding.check)}: {clean(finding.summary)}", "", "  ", "dim")
        if self.report.notes:
            self.page.blank()
            for note in self.report.notes:
                self.page.prose(f"note: {clean(note)}", "", "  ")
        if self.verbose:
            self._details()

    def _details(self) -> None:
        self.page.blank()
        for node, values in (self.report.details.get("nodes") or {}).items():
            for name, value in values.items():
                self.page.line((f"{clean(node)}: {clean(name)}: {_value(value)}", "dim"))

    def _tally(self, roots: Sequence[Finding]) -> None:
        report = self.report
        arrived = sum(node.arrived for node in report.nodes)
        partly = report.verdict in ("pass", "warn") and report.until != STAGES[-1]
        parts = [report.verdict.upper() + (f" up to {report.until}" if partly else "")]
        followers = len(report.findings) - len(roots)
        if roots:
            kinds = [(s, sum(f.severity == s for f in roots)) for s in ("fail", "warn", "info")]
            parts.append(
                ", ".join(f"{number} {severity}" for severity, number in kinds if number)
                + (f" ({followers} more follow)" if followers else "")
            )
        else:
            parts.append("no findings")
        whole = count(len(report.nodes), "node")
        parts.append(whole if arrived == len(report.nodes) else f"{arrived} of {whole}")
        if report.ignored:
            parts.append(f"{len(report.ignored)} ignored")
        parts.append(f"{report.seconds:.1f} s")
        self.page.line((parts[0], STYLES[report.verdict]), "".join(f"{self.dot}{part}" for part in parts[1:]))
        words, command = next_step(report, self.program)
        self.page.prose(clean(words) + (":" if command else ""), "next: ", "      ")
        if command:
            self.page.line((f"    {clean(command)}", "bold"))


def _shape(plan: dict[str, Any]) -> str:
    nodes, ranks_each, world = plan.get("nnodes"), plan.get("nproc_per_node"), plan.get("world_size")
    if nodes and ranks_each:
        return f"{count(nodes, 'node')} x {count(ranks_each, 'rank')}"
    return count(world, "rank") if world else "unknown number of ranks"


def _short(reason: str) -> str:
    line = reason.strip().partition("\n")[0]
    return line if len(line) <= 100 else line[:97] + "..."


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{clean(name)}={_value(item)}" for name, item in value.items())
    if isinstance(value, list):
        return " ".join(clean(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else clean(value)
