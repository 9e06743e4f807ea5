"""The first line of a report on a run that a signal ended."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from distdoctor.model.cluster import build
from distdoctor.model.facts import Contact, NodeFacts, RendezvousFacts
from distdoctor.render import html, markdown
from distdoctor.render.style import Style
from distdoctor.render.text import render
from distdoctor.session.context import Clock
from distdoctor.session.finish import ReportMaker
from distdoctor.session.interruption import certain_report, pending_failures
from distdoctor.session.options import Options
from tests.facts_builder import CHECKS, healthy, judged, loopback_name, with_network


def report_and_verdict(
    *facts: NodeFacts, number: int = signal.SIGINT, until: str = "collective"
) -> tuple[list[str], str]:
    """The lines of the report, and its verdict, of a run that was interrupted with these facts."""
    maker = ReportMaker(until, Clock(60.0, 60.0))
    maker.signal = number
    certain = judged(*facts)
    pending = pending_failures(facts, Options(facts[0].plan, CHECKS), certain)
    report = maker.make(build(facts), certain, True, pending)
    return render(
        report, Style(width=100, given=(("--nnodes", "2"), ("--master-addr", "host0")))
    ).splitlines(), report.verdict


def waiting(nodes: int) -> NodeFacts:
    """Node 0 of so many, which waits alone in its store."""
    first = healthy(nodes)[0]
    stages = tuple(one for one in first.stages if one.stage in ("environment", "host", "gpu", "network"))
    ranks = tuple(replace(rank, stages=()) for rank in first.ranks)
    meeting = RendezvousFacts(joined=True, ours=True, hosted=True, waited=6.0, arrived=(first.key,), expected=nodes)
    return replace(first, stages=stages, mesh=None, ranks=ranks, meeting=meeting)


def ended_before(facts: NodeFacts, stage: str) -> NodeFacts:
    names = [one.stage for one in facts.stages]
    return replace(facts, stages=facts.stages[: names.index(stage)])


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (signal.SIGINT, "Interrupted after 0 s; node1 had not joined"),
        (signal.SIGTERM, "Ended by SIGTERM after 0 s; node1 had not joined"),
        (signal.SIGHUP, "Ended by SIGHUP after 0 s; node1 had not joined"),
    ],
)
def test_who_had_not_joined_is_named_in_the_first_line_and_nothing_failed(number: int, line: str) -> None:
    lines, verdict = report_and_verdict(waiting(2), number=number)
    assert (lines[0], verdict) == (line, "incomplete")
    assert not any("FAIL" in one or "never came" in one for one in lines)
    assert len(lines) <= 5
    assert lines[-2].startswith("Next: run this on node1, and here again")


def test_several_nodes_are_folded() -> None:
    assert report_and_verdict(waiting(4))[0][0] == "Interrupted after 0 s; node[1-3] had not joined"


def test_where_all_had_joined_the_stage_is_named() -> None:
    facts = [ended_before(one, "mesh") for one in healthy(2)]
    lines, verdict = report_and_verdict(*facts)
    assert (lines[0], verdict) == (
        "Interrupted after 0 s; all 2 nodes had joined, stage mesh was running",
        "incomplete",
    )
    assert lines[-2].startswith("Next: check again")
    single = report_and_verdict(ended_before(healthy(1)[0], "gloo"))[0][0]
    assert single == "Interrupted after 0 s; stage gloo init was running"
    importing = replace(one := healthy(1)[0], identity=replace(one.identity, torch_importing=True))
    assert report_and_verdict(importing)[0][0] == "Interrupted after 0 s; torch still being imported"


def test_what_is_certain_still_follows() -> None:
    first = loopback_name(waiting(2))
    lines, verdict = report_and_verdict(first)
    assert lines[0] == "Interrupted after 0 s; node1 had not joined"
    certain = [f for f in judged(first).findings if f.severity == "fail"]
    assert bool(certain) == (verdict == "fail") == any("FAIL" in line for line in lines)


def test_the_page_and_markdown_say_it_first() -> None:
    maker = ReportMaker("collective", Clock(60.0, 60.0))
    maker.signal = signal.SIGINT
    facts = [waiting(2)]
    certain = judged(*facts)
    report = maker.make(build(facts), certain, True, pending_failures(facts, Options(facts[0].plan, CHECKS), certain))
    line = "Interrupted after 0 s; node1 had not joined"
    assert f'<span class="cause">{line}</span></h1>' in html.render(report)
    assert f"`{line}`" in markdown.render(report)


@pytest.mark.parametrize(("ended", "verdict"), [(False, "incomplete"), (True, "fail")])
def test_a_run_on_several_hosts_reports_no_failure_of_a_node_that_still_joins(ended: bool, verdict: str) -> None:
    """Node 0 had not opened its store yet: only a node whose wait has ended shows a failure by a refused port."""
    a, b = healthy(2)
    refused = Contact("10.77.0.10", 29500, "refused", 111)
    b = with_network(replace(b, meeting=RendezvousFacts(ended=ended), mesh=None), contact=refused)
    made = ReportMaker("collective", Clock(60.0, 60.0)).make(build((a, b)), judged(a, b), True)
    assert {finding.check for finding in made.findings if finding.severity == "fail"}
    report = certain_report(made, (a, b))
    assert (report.verdict, bool([one for one in report.findings if one.severity == "fail"])) == (verdict, ended)
