"""The report as a page of text: for a terminal, and for a pipe.

The first line is the verdict with its cause. Then the cause's evidence and fix, the plan, the stages, and last the
verdict again with what to run next: a reader begins at the top of a page or at the bottom of a screen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from distdoctor.model.findings import Finding
from distdoctor.model.report import INTERRUPTED, Report, ReportCheck, ReportStage
from distdoctor.model.stages import BY_NAME, STAGES
from distdoctor.model.text import clean, first_of, shortened
from distdoctor.render import jobs
from distdoctor.render.fixes import LABEL, gathered, label, write_fixes
from distdoctor.render.next_step import next_step
from distdoctor.render.page import STYLES, Page
from distdoctor.render.style import PLAIN, Style
from distdoctor.render.verdict import headline, plan_line, sentence
from distdoctor.render.words import count, fold, ranks

EVIDENCE_SHOWN = 8
"""Lines of evidence per finding without ``-v``."""
LINKS_SHOWN = 6
_KINDS = {"fail": "root cause", "warn": "warning", "info": "note"}


def render(report: Report, style: Style = PLAIN) -> str:
    writer = _Writer(report, style)
    writer.write(style.quiet)
    text = writer.page.coloured() if style.colour else writer.page.plain()
    return text.encode("ascii", "backslashreplace").decode() if style.ascii_only else text


class _Writer:
    def __init__(self, report: Report, style: Style) -> None:
        self.report, self.style, self.verbose = report, style, style.verbose
        self.page = Page(style.width)
        self.roots = [f for f in report.findings if f.because_of is None]
        self.on_logs, self.on_job = jobs.is_on_logs(report), jobs.is_on_job(report)
        self.head = headline(report)

    def write(self, quiet: bool) -> None:
        self._headline()
        if quiet and self.report.verdict == "pass":
            return
        if INTERRUPTED in self.report.details:
            self._interrupted(quiet)
            return
        if self.head.finding is not None:
            self._body(self.head.finding, quiet)
        elif not quiet:
            self._plan()
        for root in self.roots:
            if root is not self.head.finding and (not quiet or root.severity != "info"):
                self._root(root, quiet)
        jobs.write_candidates(self.page, self.report, self.style)
        if not quiet and self.on_job:
            jobs.write_job_table(self.page, self.report, self.verbose)
        if not quiet:
            self._rest()
            self.page.blank()
            if self.head.finding is not None:
                self._plan()
            self._stages()
        self.page.blank()
        self._tally()
        self._next()

    def _headline(self) -> None:
        head, style = self.head, STYLES[self.report.verdict]
        if not head.word:
            self.page.prose((head.text, style), hang=2)
        elif head.finding is None:
            self.page.prose((f"{head.word}: ", style), head.text, hang=2)
        else:
            self._heading(head.word, style, head.text, head.finding)

    def _heading(self, word: str, style: str, text: str, finding: Finding) -> None:
        self.page.prose((f"{word}  ", style), (text, "bold"), (f"  [{clean(finding.id)}]", "dim"), hang=len(word) + 2)

    def _interrupted(self, quiet: bool) -> None:
        """The report on a run that a signal ended: what is certain, what was seen, and how to go on."""
        for root in self.roots:
            if root.severity == "fail" or (self.verbose and not quiet):
                self._root(root, quiet)
        if not quiet:
            for note in self.report.notes:
                if not note.startswith("interrupted by "):
                    self.page.prose(f"note: {clean(note)}", hang=6)
        if self.verbose:
            self.page.blank()
            write_stage_table(self.page, self.report)
            write_details(self.page, self.report)
        self._next()

    # -- what was checked ---------------------------------------------------------------------------------------

    def _plan(self) -> None:
        if self.on_logs:
            said = jobs.logs_line(self.report)
        elif self.on_job:
            said = jobs.job_line(self.report)
        else:
            said = plan_line(self.report)
        self.page.prose((said, "dim"), hang=2)
        if self.verbose and not (self.on_logs or self.on_job):
            write_plan(self.page, self.report.plan)

    def _stages(self) -> None:
        if not self.verbose:
            write_stages(self.page, self.report)
            return
        write_stage_table(self.page, self.report)
        if not self.on_job:
            write_details(self.page, self.report)
            jobs.write_lines(self.page, self.report)

    # -- findings -----------------------------------------------------------------------------------------------

    def _root(self, finding: Finding, quiet: bool) -> None:
        severity = finding.severity or "info"
        self.page.blank()
        self._heading(severity.upper(), STYLES[severity], sentence(finding.summary), finding)
        self._body(finding, quiet)

    def _body(self, finding: Finding, quiet: bool) -> None:
        self.page.blank()
        if not quiet:
            self._evidence(finding)
        self._labelled("affected", self._affected(finding))
        if finding.matters:
            self._labelled("impact", clean(finding.matters))
        write_fixes(self.page, self.report, finding)
        if quiet:
            return
        consequences = [f for f in self.report.findings if f.because_of == finding.id]
        if self.verbose:
            for number, other in enumerate(consequences):
                self._labelled("" if number else "causes", f"{clean(other.id)}: {clean(other.summary)}")
        elif consequences:
            self._labelled("causes", ", ".join(clean(other.id) for other in consequences))
        node0 = clean(self.report.nodes[0].name) if self.report.nodes else "node 0"
        self.page.line(label("details"), self.style.explain(clean(finding.check), node0))

    def _labelled(self, name: str, text: str) -> None:
        self.page.prose(label(name), text, hang=LABEL)

    def _affected(self, finding: Finding) -> str:
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
        return ", ".join(parts) or ("not named in the logs" if self.on_logs else "the whole job")

    def _evidence(self, finding: Finding) -> None:
        lines = gathered(finding.evidence, [node.name for node in self.report.nodes])
        shown = lines if self.verbose else lines[:EVIDENCE_SHOWN]
        for number, line in enumerate(shown):
            self._labelled("" if number else "evidence", clean(line))
        if len(shown) < len(lines):
            self.page.line((f"{'':{LABEL}}and {count(len(lines) - len(shown), 'line')} more: -v", "dim"))

    # -- the end ------------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        self.page.blank()
        for finding in self.report.ignored:
            self.page.prose((f"ignored: {clean(finding.check)}: {clean(finding.summary)}", "dim"), hang=9)
        for note in self.report.notes:
            if sentence(note) != self.head.text:
                self.page.prose(f"note: {clean(note)}", hang=6)
        if results := _site_results(self.report, self.style):
            self.page.prose((f"site checks: {results}", "dim"), hang=2)

    def _tally(self) -> None:
        report = self.report
        parts = [tally(self.roots, len(report.findings) - len(self.roots), len(report.candidates))]
        if report.ignored:
            parts.append(f"{len(report.ignored)} ignored")
        took = f" ({report.seconds:.1f} s)" if self.style.given is not None else ""  # of saved facts: not the run's
        said = ", ".join(parts) + took
        self.page.prose((f"{self.head.word}: ", STYLES[report.verdict]), said, hang=2)

    def _next(self) -> None:
        if self.on_logs:
            words, commands = jobs.log_next_step(self.report, self.style.program)
        elif self.on_job:
            words, commands = jobs.hang_next_step(self.report, self.style)
        else:
            words, commands = next_step(self.report, self.style)
        self.page.prose(f"Next: {clean(words)}{':' if commands else '.'}", hang=6)
        for command in commands:
            self.page.line((f"    {clean(command)}", "bold"))


def tally(roots: Sequence[Finding], consequences: int, candidates: int = 0) -> str:
    """``1 root cause, 1 warning, 2 consequences``."""
    kinds = [(sum(root.severity == kind for root in roots), noun) for kind, noun in _KINDS.items()]
    counted = [
        count(number, noun)
        for number, noun in (*kinds, (consequences, "consequence"), (candidates, "possible cause"))
        if number
    ]
    return ", ".join(counted) or "no findings"


# The stages: in a few lines by how they ended; with ``-v`` one line each.


def _site_results(report: Report, style: Style) -> str:
    """Return the results of a site's own checks, empty without any. Node 0 judges: only those that it has run."""
    site_checks = style.site_checks
    if jobs.is_on_logs(report) and not report.checks:
        matched = {finding.check for finding in report.findings} | {one.check for one in report.candidates}
        results = [(check, "found" if check in matched else "not found in the logs") for check in site_checks]
    else:
        arrived = sum(node.arrived for node in report.nodes)
        words = {"clear": f"clear on {count(arrived, 'node')}", "not-judged": "not judged"}
        ran = {one.id: words.get(one.status, one.status) for one in report.checks}
        node0 = report.nodes[0].name if report.nodes and not ran else style.here
        absent = "did not run" if node0 == style.here else f"did not run: give {clean(node0)} the same --checks"
        results = [(check, ran.get(check, absent)) for check in site_checks]
    by_result: dict[str, list[str]] = {}
    for check, result in results:
        by_result.setdefault(result, []).append(clean(check))
    return "; ".join(f"{', '.join(checks)} {result}" for result, checks in by_result.items())


REASON_SHOWN = 100
"""Characters of the text of a failure, without ``-v``: the findings say it better."""
PARTIAL = "partial"
"""Status of a stage that passed without the nodes that are missing."""
_WORDS = {"pass": "passed", "warn": "warned", "fail": "failed", "error": "error", "skip": "skipped", PARTIAL: "partial"}
_WORST = ("error", "fail", "warn", PARTIAL, "skip", "pass")
_WIDE = 9


class StageLine(NamedTuple):
    """One outcome of a stage, and the nodes that share it."""

    title: str
    status: str
    seconds: float
    nodes: tuple[str, ...]
    """Empty if all nodes share it."""
    why: str


def write_stages(page: Page, report: Report) -> None:
    """Write one line for each way in which stages ended: passed, this node only, warned, failed, skipped."""
    named = headline(report).finding
    lines: dict[str, list[StageLine]] = {}
    for outcomes in _stages(report, False):
        worst = _worst(outcomes)
        if named is not None and worst.why == named.id:
            worst = worst._replace(why="")
        lines.setdefault(worst.why if worst.status == PARTIAL else _WORDS[worst.status], []).append(worst)
    order = [_WORDS["pass"], *(word for word in lines if word not in _WORDS.values()), "warned", "failed", "error"]
    width = max(_WIDE, *map(len, lines)) if lines else 0
    for word in (*order, "skipped"):
        if word in lines:
            style = STYLES.get(lines[word][0].status, "dim")
            page.prose((f"{word:<{width}}  ", style), _in_short(lines[word]), hang=width + 2)


def _worst(outcomes: Sequence[StageLine]) -> StageLine:
    """Return the worst outcome; nodes that failed for several reasons are named together, without the reasons."""
    worst = min(outcomes, key=lambda line: _WORST.index(line.status))
    alike = [line for line in outcomes if line.status == worst.status]
    if len(alike) == 1 or worst.status not in ("fail", "warn"):
        return worst
    nodes = tuple(node for line in alike for node in line.nodes)
    return worst._replace(nodes=nodes if len(alike) < len(outcomes) else (), why="")


def _in_short(lines: Sequence[StageLine]) -> str:
    """``gloo (host1: refused), gpu and nccl (no GPU)``: stages with one reason share it."""
    groups: dict[str, list[str]] = {}
    for line in lines:
        reason = ""
        if line.status not in ("pass", PARTIAL):
            why = clean(line.why).removeprefix("not run: ").replace("needs ", "need ", 1)
            reason = ": ".join(part for part in (fold(line.nodes), why) if part)
        groups.setdefault(reason, []).append(_with_seconds(line))
    parts = [", ".join(names) + (f" ({reason})" if reason else "") for reason, names in groups.items()]
    return "; ".join(parts)


def _with_seconds(line: StageLine) -> str:
    """The stage, with its seconds where those are worth a look."""
    return f"{line.title} ({line.seconds:.1f} s)" if line.status == "pass" and line.seconds >= SLOW else line.title


SLOW = 2.0
"""Seconds from which on a stage's time is shown without ``-v``."""


def write_stage_table(page: Page, report: Report) -> None:
    """Write every stage with its seconds and its whole reason; those skipped for one reason in a row share a line."""
    stages = _merged(_stages(report, True))
    wide = max((len(outcomes[0].title) for outcomes in stages), default=0)
    for outcomes in stages:
        for line in outcomes:
            skipped = line.status == "skip"
            style = STYLES.get("skip" if line.status == PARTIAL else line.status, "")
            page.prose(
                (f"{_WORDS[line.status]:<{_WIDE}}", style),
                f"{line.title if line is outcomes[0] else '':<{wide}}",
                (f"{'':10}" if skipped else f"{line.seconds:8.2f} s", "dim"),
                f"  {fold(line.nodes)}" if line.nodes else "",
                (f"  {clean(line.why)}" if line.why else "", "dim" if skipped else ""),
                hang=_WIDE + wide + 12,
            )


def _stages(report: Report, whole: bool) -> Iterator[list[StageLine]]:
    """Return the outcomes of each stage, in the order in which they run."""
    several = len({stage.node for stage in report.stages}) > 1
    for name in STAGES:
        if BY_NAME[name].after_torch and (line := _torch_import(report)):
            yield [line]
        groups: dict[tuple[str, str], list[ReportStage]] = {}
        for stage in report.stages:
            if stage.stage == name:
                status = PARTIAL if stage.partial else stage.status
                groups.setdefault((status, "" if status == "pass" else stage.reason), []).append(stage)
        outcomes = []
        for (status, reason), members in groups.items():
            nodes = tuple(stage.node for stage in members) if several and len(groups) > 1 else ()
            why = reason if status in ("skip", "error", PARTIAL) or whole else shortened(reason, REASON_SHOWN)
            outcomes.append(StageLine(name, status, max(stage.seconds for stage in members), nodes, why))
        if outcomes:
            yield outcomes


def _torch_import(report: Report) -> StageLine | None:
    """Return how long importing torch took where it took longest: neither network nor GPU is to blame for it."""
    nodes = {name: node for name, node in (report.details.get("nodes") or {}).items() if isinstance(node, dict)}
    took = [values.get("torch_seconds") for values in nodes.values()]
    seconds = [float(value) for value in took if isinstance(value, (int, float))]
    if not seconds:
        return None
    without = [node.name for node in report.nodes if node.arrived and node.torch is None]
    # Where the check was ended meanwhile, the import is no failure.
    blamed = {name for finding in report.findings if finding.check.startswith("environment/") for name in finding.nodes}
    ended = all(nodes.get(name, {}).get("torch_importing") and name not in blamed for name in without)
    where = tuple(without) if len(nodes) > 1 else ()
    if without and ended:
        why = f"not through after {max(seconds):.1f} s, when the check ended"
        return StageLine("import torch", "skip", 0.0, where, why)
    return StageLine("import torch", "fail" if without else "pass", max(seconds), where, "")


def _merged(stages: Iterable[list[StageLine]]) -> list[list[StageLine]]:
    """The stages again; those skipped for the same reasons, one after the other, share a title."""
    merged: list[list[StageLine]] = []
    for outcomes in stages:
        skipped = all(line.status == "skip" for line in outcomes)
        if skipped and merged and _reasons(merged[-1]) == _reasons(outcomes):
            first = merged[-1][0]
            merged[-1][0] = first._replace(title=f"{first.title}, {outcomes[0].title}")
        else:
            merged.append(outcomes)
    return merged


def _reasons(outcomes: Iterable[StageLine]) -> list[tuple[str, tuple[str, ...], str]]:
    return [(line.status, line.nodes, line.why) for line in outcomes]


# What ``-v`` adds, in words: where the plan came from, and the values seen where all is well.


CHECKS_SHOWN = 10


def write_plan(page: Page, plan: Mapping[str, Any]) -> None:
    """Each value of the plan and where it came from, in brackets."""
    sources = plan.get("sources") or {}
    parts = [
        f"{clean(name).replace('_', ' ')} {_plain(plan.get(name))} ({clean(why)})" for name, why in sources.items()
    ]
    if parts:
        page.prose((f"  plan: {', '.join(parts)}", "dim"), hang=8)


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
    clear_text = ", ".join(f"{clean(stage)} {clear[stage]} of {number}" for stage, number in stages.items())
    yield f"looked and found nothing: {clear_text}"
    reasons: dict[str, list[str]] = {}
    for check in checks:
        if check.status == "not-judged":
            reasons.setdefault(check.why, []).append(check.id)
    for why, ids in reasons.items():
        yield f"not judged, {clean(why)}: {first_of([*map(clean, ids)], CHECKS_SHOWN)}"


def _value_lines(values: dict[str, Any]) -> Iterable[str]:
    """Return the values of one node as sentences; a value without a sentence is printed by its name."""
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
    for rank, text in _ranked(values.get("collective")):
        yield f"rank {clean(rank)}: {text}"
    for name, value in values.items():
        if name not in _WORDED:
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
_WORDED = {
    "python", "executable", "torch", "torch_path", "torch_seconds", "torch_error", "torch_importing", "interfaces",
    "gloo_address", "gloo_interface", "reached_at", "variables", "variable_files", "links_good",
    "links_bad", "rtt_median", "rtt_max", "collective",
}  # fmt: skip


def _ranked(collective: Any) -> Iterable[tuple[str, str]]:
    """Return what the collectives took, rank by rank."""
    for rank, detail in collective.items() if isinstance(collective, Mapping) else ():
        detail = dict(detail) if isinstance(detail, Mapping) else {}
        times = detail.pop("times", None)
        parts = [f"{clean(k)} {_milliseconds(v)}" for k, v in times.items()] if isinstance(times, Mapping) else []
        parts += [f"{clean(name)} {_plain(value)}" for name, value in detail.items()]
        yield str(rank), ", ".join(parts)


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
