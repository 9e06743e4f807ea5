"""The report as a page of text: for a terminal, and for a pipe.

The verdict and the root causes stand first, what merely passed after them, and the command to run next last: a reader
begins at the top of a page or at the bottom of a screen.
"""

from __future__ import annotations

from collections.abc import Sequence

from distdoctor.model.error_text import shortened
from distdoctor.model.findings import Finding
from distdoctor.model.report import INTERRUPTED, ONE_HOST, Report
from distdoctor.model.sanitize import clean
from distdoctor.model.stages import STAGES, needs_torch
from distdoctor.render import hang, logs
from distdoctor.render.details import write_details, write_plan
from distdoctor.render.evidence import gathered
from distdoctor.render.fixes import write_fixes
from distdoctor.render.ladder import write_ladder
from distdoctor.render.marks import ASCII_MARKS, MARKS, STYLES
from distdoctor.render.next_step import next_step
from distdoctor.render.page import Page
from distdoctor.render.style import PLAIN, Style
from distdoctor.render.words import count, fold, ranks

EVIDENCE_SHOWN = 8
"""Lines of evidence per finding without ``-v``."""
LINKS_SHOWN = 6
NODES_COUNTED = 8
"""Nodes whose different numbers of ranks are told one by one."""
BY_HAND = "env"
"""The launcher of a plan that stands in the ranks' variables alone."""
ALONE = "this machine alone"
SUMMARY_SHOWN = 180
"""Characters of what merely follows, without ``-v``."""

_KINDS = {"fail": "failure", "warn": "warning", "info": "remark"}


def render(report: Report, style: Style = PLAIN) -> str:
    """``report`` as text."""
    writer = _Writer(report, style)
    writer.write(style.quiet)
    text = writer.page.coloured() if style.colour else writer.page.plain()
    return text.encode("ascii", "backslashreplace").decode() if style.ascii_only else text


class _Writer:
    def __init__(self, report: Report, style: Style) -> None:
        self.report, self.style, self.verbose = report, style, style.verbose
        self.page = Page(style.width)
        self.marks, self.dot = (ASCII_MARKS, " - ") if style.ascii_only else (MARKS, " · ")
        self.roots = [f for f in report.findings if f.because_of is None]
        self.on_logs, self.on_job = logs.is_on_logs(report), hang.is_on_job(report)

    def write(self, quiet: bool) -> None:
        if told := self.report.details.get(INTERRUPTED):
            self._interrupted(clean(told), quiet)
            return
        if not quiet and self.on_logs:
            logs.write_head(self.page, self.report, self.dot)
        elif not quiet and self.on_job:
            hang.write_head(self.page, self.report, self.dot)
        elif not quiet:
            self._header()
            self._verdict()
            for note in self.report.notes:
                if ONE_HOST in note:
                    self.page.prose(f"note: {clean(note)}", hang=2)
        for root in self.roots:
            if not quiet or root.severity != "info":
                self._root(root, [f for f in self.report.findings if f.because_of == root.id], quiet)
        logs.write_candidates(self.page, self.report, self.style.program)
        if not quiet and self.on_job:
            hang.write_table(self.page, self.report, self.verbose)
        if not quiet:
            self._rest()
            self.page.blank()
            write_ladder(self.page, self.report, self.marks, whole=bool(self.verbose))
            if self.verbose and not self.on_job:
                write_details(self.page, self.report)
                logs.write_lines(self.page, self.report)
        self.page.blank()
        self._tally()
        self._next()

    def _interrupted(self, told: str, quiet: bool) -> None:
        """The report on a run that a signal ended: what is certain, what was seen, and how to go on."""
        self.page.prose((told, STYLES["incomplete"]), hang=2)
        for root in self.roots:
            if root.severity == "fail" or (self.verbose and not quiet):
                self._root(root, [f for f in self.report.findings if f.because_of == root.id], quiet)
        if not quiet:
            for note in self.report.notes:
                if not note.startswith("interrupted by "):
                    self.page.prose(f"note: {clean(note)}", hang=2)
        if self.verbose:
            self.page.blank()
            write_ladder(self.page, self.report, self.marks, whole=True)
            write_details(self.page, self.report)
        self._next()

    # -- what was checked, and what came of it ------------------------------------------------------------------

    def _without_torch(self) -> str:
        """What is known of torch where no version of it is."""
        nodes = (self.report.details.get("nodes") or {}).values()
        if any(node.get("torch_importing") for node in nodes):
            return "torch still being imported"
        return "no torch" if any(node.get("torch_error") for node in nodes) else "torch unknown"

    def _header(self) -> None:
        plan = self.report.plan
        sources = plan.get("sources") or {}
        parts = [f"distdoctor {clean(self.report.distdoctor)}", _shape(self.report)]
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
        self.page.prose((self.dot.join(parts), "bold"), hang=2)
        if self.verbose:
            write_plan(self.page, plan, self.dot)

    def _verdict(self) -> None:
        report = self.report
        failures = sum(root.severity == "fail" for root in self.roots)
        if report.verdict == "fail":
            said = "as planned, the job would fail or hang"
            said += f"; {count(failures, 'root cause')}" if failures > 1 else ""
        elif report.verdict == "warn":
            said = "as planned, the job would run"
        elif report.verdict == "pass":
            said = "nothing keeps the job from starting as planned" if self._whole() else "nothing is wrong so far"
            if _taken_for_alone(report):
                said += f", {ALONE}: of other nodes nothing was said"
            if report.apart:
                said += f" on {fold([node.name for node in report.nodes])}, which is all that is known here"
        else:
            said = "not everything could be checked"
        self.page.prose((f"{self._word()}: ", STYLES[report.verdict]), said, hang=2)
        missing = [node.name for node in report.nodes if not node.arrived]
        if missing:
            here = [node.name for node in report.nodes if node.arrived]
            self.page.prose(
                f"here: {fold(here) or 'nobody'}{self.dot}", (f"not here: {fold(missing)}", "bold red"), hang=2
            )

    def _whole(self) -> bool:
        return self.report.until == STAGES[-1]

    def _word(self) -> str:
        if self.on_logs:
            return logs.word(self.report)
        if self.on_job:
            return hang.word(self.report)
        partly = self.report.verdict in ("pass", "warn") and not self._whole()
        return self.report.verdict.upper() + (f" up to {self.report.until}" if partly else "")

    # -- findings -----------------------------------------------------------------------------------------------

    def _root(self, finding: Finding, consequences: Sequence[Finding], quiet: bool) -> None:
        page, severity = self.page, finding.severity or "info"
        page.blank()
        page.prose(
            (f"{self.marks[severity]} {severity.upper()} ", STYLES[severity]),
            (clean(finding.id), "bold"),
            f": {clean(finding.title)}",
            hang=2,
        )
        page.prose(f"  {clean(finding.summary)}", hang=2)
        page.prose(("  where: ", "dim"), self._where(finding), hang=9)
        if not quiet:
            self._evidence(finding)
        if finding.matters:
            page.prose(("  why it matters: ", "dim"), clean(finding.matters), hang=4)
        write_fixes(page, self.report, finding)
        if quiet:
            return
        for other in consequences:
            summary = clean(other.summary if self.verbose else shortened(other.summary, SUMMARY_SHOWN))
            page.prose((f"  follows from it: {clean(other.id)}: {summary}", "dim"), hang=4)
        page.line(("  more: ", "dim"), f"{self.style.program} explain {clean(finding.check)}")

    def _where(self, finding: Finding) -> str:
        parts = []
        if finding.nodes:
            parts.append(
                ("one of " if finding.blame == "one-of" and len(finding.nodes) > 1 else "") + fold(finding.nodes)
            )
        if finding.ranks:
            parts.append(ranks(finding.ranks))
        if finding.local_ranks:
            parts.append(f"local {ranks(finding.local_ranks)}")
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
        return self.dot.join(parts) or ("not said in the logs" if self.on_logs else "the whole job")

    def _evidence(self, finding: Finding) -> None:
        lines = gathered(finding.evidence, [node.name for node in self.report.nodes])
        shown = lines if self.verbose else lines[:EVIDENCE_SHOWN]
        for number, line in enumerate(shown):
            self.page.prose(("  saw: " if number == 0 else "       ", "dim"), clean(line), hang=9)
        if len(shown) < len(lines):
            self.page.line((f"       and {count(len(lines) - len(shown), 'line')} more: -v", "dim"))

    # -- the end ------------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        self.page.blank()
        for finding in self.report.ignored:
            self.page.prose((f"ignored: {clean(finding.check)}: {clean(finding.summary)}", "dim"), hang=2)
        for note in self.report.notes:
            if ONE_HOST not in note or self.on_logs or self.on_job:
                self.page.prose(f"note: {clean(note)}", hang=2)

    def _tally(self) -> None:
        report = self.report
        arrived = sum(node.arrived for node in report.nodes)
        parts = [tally(self.roots, len(report.findings) - len(self.roots))]
        # Who met nobody knows of as many as it tried to reach; how many there are to be, its plan says.
        planned = 0 if self.on_logs or self.on_job else report.plan.get("nnodes") or 0
        whole = max(len(report.nodes), planned)
        if report.nodes or not self.on_logs:
            told = count(whole, "node") if arrived == whole else f"{arrived} of {count(whole, 'node')}"
            parts.append(told + (f" ({ALONE})" if _taken_for_alone(report) else ""))
        if report.ignored:
            parts.append(f"{len(report.ignored)} ignored")
        parts.append(f"{report.seconds:.1f} s")
        self.page.prose((self._word(), STYLES[report.verdict]), "".join(f"{self.dot}{part}" for part in parts), hang=2)

    def _next(self) -> None:
        if self.on_logs:
            words, commands = logs.next_step(self.report, self.style.program)
        elif self.on_job:
            words, commands = hang.next_step(self.report, self.style)
        else:
            words, commands = next_step(self.report, self.style)
        self.page.prose(f"next: {clean(words)}{':' if commands else ''}", hang=6)
        for command in commands:
            self.page.line((f"    {clean(command)}", "bold"))


def tally(roots: Sequence[Finding], followers: int) -> str:
    """``1 failure, 2 consequences``."""
    kinds = [(sum(root.severity == kind for root in roots), noun) for kind, noun in _KINDS.items()]
    counted = [count(number, noun) for number, noun in (*kinds, (followers, "consequence")) if number]
    return ", ".join(counted) or "no findings"


def _shape(report: Report) -> str:
    """How many nodes and ranks, and who started them."""
    launcher = report.plan.get("launcher") or BY_HAND
    who = clean(launcher) if launcher != BY_HAND else ALONE if _taken_for_alone(report) else ""
    return _nodes_and_ranks(report, launcher) + (f" ({who})" if who else "")


def _taken_for_alone(report: Report) -> bool:
    """Whether nothing said of other nodes: what was taken for granted is told, as it may be wrong."""
    return bool(report.plan.get("alone"))


def _nodes_and_ranks(report: Report, launcher: str) -> str:
    plan = report.plan
    nodes, ranks_each, world = plan.get("nnodes"), plan.get("nproc_per_node"), plan.get("world_size")
    each = plan.get("ranks_per_node") or [len(node.ranks) for node in report.nodes]
    if nodes and world and world != nodes * (ranks_each or 0) and sum(each) == world and len(each) == nodes:
        told = f" ({' + '.join(map(str, each))})" if nodes <= NODES_COUNTED else ""
        return f"{count(nodes, 'node')}, {count(world, 'rank')}{told}"
    if nodes and ranks_each:
        return f"{count(nodes, 'node')} x {count(ranks_each, 'rank')}"
    if world and launcher != BY_HAND and sum(each) == world:
        return f"{count(len(report.nodes), 'node')}, {count(world, 'rank')}"
    return count(world, "rank") if world else "unknown number of ranks"
