"""The report as a page of text: for a terminal, and for a pipe.

The verdict and the root causes stand first, what merely passed after them, and the command to run next last: a reader
begins at the top of a page or at the bottom of a screen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from distdoctor.model.findings import Finding
from distdoctor.model.report import INTERRUPTED, ONE_HOST, Report, ReportCheck, ReportStage
from distdoctor.model.stages import BY_NAME, STAGES, needs_torch
from distdoctor.model.text import clean, shortened
from distdoctor.render import jobs
from distdoctor.render.fixes import gathered, write_fixes
from distdoctor.render.next_step import next_step
from distdoctor.render.page import ASCII_MARKS, MARKS, STYLES, Page
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
        self.on_logs, self.on_job = jobs.is_on_logs(report), jobs.is_on_job(report)

    def write(self, quiet: bool) -> None:
        if told := self.report.details.get(INTERRUPTED):
            self._interrupted(clean(told), quiet)
            return
        if not quiet and self.on_logs:
            jobs.write_log_head(self.page, self.report, self.dot)
        elif not quiet and self.on_job:
            jobs.write_hang_head(self.page, self.report, self.dot)
        elif not quiet:
            self._header()
            self._verdict()
            for note in self.report.notes:
                if ONE_HOST in note:
                    self.page.prose(f"note: {clean(note)}", hang=2)
        for root in self.roots:
            if not quiet or root.severity != "info":
                self._root(root, [f for f in self.report.findings if f.because_of == root.id], quiet)
        jobs.write_candidates(self.page, self.report, self.style.program)
        if not quiet and self.on_job:
            jobs.write_job_table(self.page, self.report, self.verbose)
        if not quiet:
            self._rest()
            self.page.blank()
            write_ladder(self.page, self.report, self.marks, whole=bool(self.verbose))
            if self.verbose and not self.on_job:
                write_details(self.page, self.report)
                jobs.write_lines(self.page, self.report)
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
        """Return what is known of torch where no version of it is."""
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
            return jobs.log_verdict(self.report)
        if self.on_job:
            return jobs.hang_verdict(self.report)
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
            words, commands = jobs.log_next_step(self.report, self.style.program)
        elif self.on_job:
            words, commands = jobs.hang_next_step(self.report, self.style)
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
    """Return how many nodes and ranks, and who started them."""
    launcher = report.plan.get("launcher") or BY_HAND
    who = clean(launcher) if launcher != BY_HAND else ALONE if _taken_for_alone(report) else ""
    return _nodes_and_ranks(report, launcher) + (f" ({who})" if who else "")


def _taken_for_alone(report: Report) -> bool:
    """Return whether nothing said of other nodes: what was taken for granted is told, as it may be wrong."""
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


# The stages, one line each: how it ended, how long it took, and why it did not pass.


REASON_SHOWN = 100
"""Characters of the text of a failure, without ``-v``: the findings say it better."""
PARTIAL = "partial"
"""How a stage is shown that passed without the nodes that are missing: it has no tick."""
_WIDE, _TIME = 12, 9
Line = tuple[str, str, float, str, str]
"""Title, status, seconds, where, why."""


def write_ladder(page: Page, report: Report, marks: dict[str, str], *, whole: bool) -> None:
    """Every stage. Those left out for one reason, one after the other, share a line. ``whole``: reasons uncut."""
    for title, status, seconds, where, why in _merged(_stage_lines(report, whole)):
        mark, style = marks["skip" if status == PARTIAL else status], STYLES["skip" if status == PARTIAL else status]
        page.prose(
            (f"{mark} ", style),
            (f"{title:<{_WIDE}}", "" if status == "pass" else style)
            if status != "skip"
            else f"{title:<{_WIDE + _TIME}}",
            (f"{seconds:7.2f} s" if status != "skip" else "", "dim"),
            f"  {where}" if where else "",
            (f"  {clean(why)}" if why else "", "dim" if status == "skip" else ""),
            hang=len(mark) + _WIDE + _TIME + 3,
        )


def _stage_lines(report: Report, whole: bool) -> Iterable[Line]:
    several = len({stage.node for stage in report.stages}) > 1
    for name in STAGES:
        if BY_NAME[name].after_torch:
            yield from _torch_import_line(report)
        groups: dict[tuple[str, str], list[ReportStage]] = {}
        for stage in report.stages:
            if stage.stage == name:
                status = PARTIAL if stage.partial else stage.status
                groups.setdefault((status, "" if status == "pass" else stage.reason), []).append(stage)
        title = name
        for (status, reason), members in groups.items():
            where = fold(stage.node for stage in members) if several and len(groups) > 1 else ""
            why = reason if status in ("skip", "error", PARTIAL) or whole else shortened(reason, REASON_SHOWN)
            yield title, status, max(stage.seconds for stage in members), where, why
            title = ""


def _torch_import_line(report: Report) -> Iterable[Line]:
    """Return how long importing torch took where it took longest: neither network nor GPU is to blame for it."""
    nodes = {name: node for name, node in (report.details.get("nodes") or {}).items() if isinstance(node, dict)}
    took = [values.get("torch_seconds") for values in nodes.values()]
    seconds = [float(value) for value in took if isinstance(value, (int, float))]
    if not seconds:
        return
    without = [node.name for node in report.nodes if node.arrived and node.torch is None]
    # Where the check was ended meanwhile, the import is no failure.
    blamed = {name for found in report.findings if found.check.startswith("environment/") for name in found.nodes}
    ended = all(nodes.get(name, {}).get("torch_importing") and name not in blamed for name in without)
    where = fold(without) if len(nodes) > 1 else ""
    if without and ended:
        yield "import torch", "skip", 0.0, where, f"not through after {max(seconds):.1f} s, when the check ended"
    else:
        yield "import torch", "fail" if without else "pass", max(seconds), where, ""


def _merged(lines: Iterable[Line]) -> list[Line]:
    """The lines again; stages that were left out for the same reasons, one after the other, under one heading."""
    stages: list[list[Line]] = []
    for line in lines:
        if line[0] or not stages:
            stages.append([])
        stages[-1].append(line)
    merged: list[list[Line]] = []
    for stage in stages:
        out = all(status == "skip" for _, status, *_ in stage)
        if out and merged and _reasons(merged[-1]) == _reasons(stage):
            first = merged[-1][0]
            merged[-1][0] = (f"{first[0]}, {stage[0][0]}", *first[1:])
        else:
            merged.append(stage)
    return [line for stage in merged for line in stage]


def _reasons(lines: Iterable[Line]) -> list[tuple[str, str, str]]:
    return [(status, where, why) for _, status, _, where, why in lines]


# What ``-v`` adds, in words: where the plan came from, and the values seen where all is well.


CHECKS_SHOWN = 10


def write_plan(page: Page, plan: Mapping[str, Any], dot: str) -> None:
    """Each value of the plan and where it came from, in brackets."""
    sources = plan.get("sources") or {}
    told = [f"{clean(name).replace('_', ' ')} {_plain(plan.get(name))} ({clean(why)})" for name, why in sources.items()]
    if told:
        page.prose((f"  plan: {dot.join(told)}", "dim"), hang=8)


def write_details(page: Page, report: Report) -> None:
    """Each node with what it is and what was measured there."""
    nodes = report.details.get("nodes") or {}
    for node, values in nodes.items():
        if not isinstance(values, Mapping):
            continue
        page.blank()
        page.line((clean(node), "dim"))
        for line in _value_lines(dict(values)):
            page.prose((f"  {line}", "dim"), hang=4)
    if report.checks:
        page.blank()
        page.line(("checks", "dim"))
        for line in _checks(report.checks):
            page.prose((f"  {line}", "dim"), hang=4)


def _checks(checks: Sequence[ReportCheck]) -> Iterable[str]:
    """Return how many of each stage found nothing, where all that they look at was seen; and the others, by why not."""
    stages = Counter(check.id.partition("/")[0] for check in checks)
    clear = Counter(check.id.partition("/")[0] for check in checks if check.status == "clear")
    told = ", ".join(f"{clean(stage)} {clear[stage]} of {number}" for stage, number in stages.items())
    yield f"looked and found nothing: {told}"
    reasons: dict[str, list[str]] = {}
    for check in checks:
        if check.status == "not-judged":
            reasons.setdefault(check.why, []).append(check.id)
    for why, ids in reasons.items():
        shown = [clean(one) for one in ids[:CHECKS_SHOWN]]
        more = f" and {len(ids) - CHECKS_SHOWN} more" if len(ids) > CHECKS_SHOWN else ""
        yield f"not judged, {clean(why)}: {', '.join(shown)}{more}"


def _value_lines(values: dict[str, Any]) -> Iterable[str]:
    """The values of one node as sentences; what has none is told by its name."""
    if "python" in values:
        where = f", {clean(values['executable'])}" if values.get("executable") else ""
        yield f"Python {clean(values['python'])}{where}"
    yield from _torch_line(values)
    if isinstance(values.get("interfaces"), Mapping):
        yield "interfaces: " + "; ".join(
            f"{clean(name)} {', '.join(map(clean, held)) or '(no address)'}"
            for name, held in values["interfaces"].items()
        )
    if "gloo_address" in values:
        interface = values.get("gloo_interface")
        yield f"gloo uses {clean(values['gloo_address'])}{f' on {clean(interface)}' if interface else ''}"
    if "reached_at" in values:
        yield f"other hosts reach it at {clean(values['reached_at'])}"
    if isinstance(values.get("variables"), Mapping):
        files = values.get("variable_files") or {}
        yield "variables: " + ", ".join(
            f"{clean(k)}={clean(v)}{f' (from {clean(files[k])})' if k in files else ''}"
            for k, v in values["variables"].items()
        )
    if "links_good" in values:
        bad = values.get("links_bad") or 0
        trips = [said.format(_milliseconds(values[name])) for name, said in _TRIPS.items() if name in values]
        good = values["links_good"]
        works = f"{count(good, 'link')} to other nodes work{'s' if good == 1 else ''}{f', {bad} do not' if bad else ''}"
        yield works + (f"; round trip {', '.join(trips)}" if trips else "")
    for rank, told in _ranked(values.get("collective")):
        yield f"rank {clean(rank)}: {told}"
    for name, value in values.items():
        if name not in _TOLD:
            yield f"{clean(name).replace('_', ' ')}: {_plain(value)}"


def _torch_line(values: Mapping[str, Any]) -> Iterable[str]:
    seconds = values.get("torch_seconds")
    took = f"{seconds:.1f} s" if isinstance(seconds, (int, float)) else ""
    if values.get("torch_importing"):
        yield f"torch was still being imported{f' after {took}' if took else ''}"
    elif values.get("torch_error"):
        yield f"torch cannot be imported: {clean(values['torch_error'])}"
    elif "torch" in values:
        where = f", from {clean(values['torch_path'])}" if "torch_path" in values else ""
        yield f"torch {clean(values['torch'])}{f', imported in {took}' if took else ''}{where}"


_TRIPS = {"rtt_median": "{} as a rule", "rtt_max": "{} at most"}
_TOLD = {
    "python", "executable", "torch", "torch_path", "torch_seconds", "torch_error", "torch_importing", "interfaces",
    "gloo_address", "gloo_interface", "reached_at", "variables", "variable_files", "links_good",
    "links_bad", "rtt_median", "rtt_max", "collective",
}  # fmt: skip


def _ranked(collective: Any) -> Iterable[tuple[str, str]]:
    """Return what the collectives took, rank by rank."""
    for rank, detail in collective.items() if isinstance(collective, Mapping) else ():
        detail = dict(detail) if isinstance(detail, Mapping) else {}
        times = detail.pop("times", None)
        told = [f"{clean(k)} {_milliseconds(v)}" for k, v in times.items()] if isinstance(times, Mapping) else []
        told += [f"{clean(name)} {_plain(value)}" for name, value in detail.items()]
        yield str(rank), ", ".join(told)


def _milliseconds(seconds: Any) -> str:
    if not isinstance(seconds, (int, float)):
        return clean(seconds)
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.2f} s"


def _plain(value: Any) -> str:
    """Any value in words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{clean(name)} {_plain(item)}" for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(_plain(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else "unknown" if value is None else clean(value)
