"""Tests of what a report on logs says besides: what could not be looked at, and what to do now."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.findings import Finding, Fix
from distdoctor.model.report import Report
from distdoctor.render import html
from distdoctor.render.style import Style
from distdoctor.render.text import render

from . import reports


def on_logs(finding: Finding, **logs: dict[str, int]) -> Report:
    return replace(reports.report(0, "incomplete", (finding,)), plan={}, stages=(), details={"logs": logs})


def finding(check: str, text: str) -> Finding:
    fixes = (Fix(text, ("gpu01",)),)
    return Finding("A summary.", "A title", ("gpu01",), fixes=fixes, check=check, id=check, severity="fail")


def test_where_hosts_were_not_reached_the_logs_that_are_not_there_show_nothing() -> None:
    unreached = finding("launch/host-unreachable", "is it up?")
    for logs in ({}, {"host0:/tmp/0.err": {"lines": 5}}):
        page = render(on_logs(unreached, **logs), Style())
        assert page.startswith("INCONCLUSIVE  A summary  [launch/host-unreachable]\n")
        assert page.splitlines()[-1] == "Next: apply the fix above, then diagnose the logs again."


def test_where_the_logs_show_who_is_missing_those_of_all_are_asked_for() -> None:
    page = render(on_logs(finding("store/nodes-missing", "run it there"), train={"lines": 5}), Style())
    assert page.startswith("INCONCLUSIVE  A summary  [store/nodes-missing]\n")
    assert page.splitlines()[-2:] == [
        "Next: diagnose the logs of all ranks and nodes together:",
        "    distdoctor diagnose LOGS...",
    ]


def test_a_remedy_goes_on_after_its_colon_unless_it_begins_with_a_name_of_code() -> None:
    for text, said in (
        ("Use another port.", "use another port."),
        ("DistributedDataParallel(x=True)", "DistributedDataParallel(x=True)"),
        ("Print(x)", "Print(x)"),
    ):
        page = render(on_logs(finding("a/b", text), train={"lines": 5}), Style())
        assert f": {said}" in page


def test_a_rank_of_which_only_the_number_on_its_node_is_known_is_named() -> None:
    one = replace(finding("process/crashed", "look at the core dump"), nodes=(), local_ranks=(1,))
    assert "  affected   local rank 1\n" in render(on_logs(one, train={"lines": 5}), Style())
    assert "local rank 1" in html.render(on_logs(one, train={"lines": 5}), Style())
