"""The page: nothing of a hostile report is run or fetched, and it stays small."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from distdoctor.judge.engine import judge
from distdoctor.judge.report import assemble
from distdoctor.model.cluster import build
from distdoctor.model.findings import Finding, Fix
from distdoctor.model.report import Report
from distdoctor.render import html
from distdoctor.render.fixes import remedies
from tests.clusters.link_rows import usual, with_rows
from tests.facts_builder import CHECKS
from tests.render import reports

SITE = "https://docs.example/distdoctor"
CHROMIUM = shutil.which("chromium")
EVIL = "<script>document.title='run'</script><img src=x onerror=alert(1)>\"'><a href='javascript:1'>{{ 7*7 }}"


class _Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def seen(page: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = _Seen()
    parser.feed(page)
    return parser.tags


def evil_report() -> Report:
    base = reports.loopback()
    finding = replace(
        base.findings[0],
        docs_url="javascript:alert(1)",
        summary=EVIL,
        title=EVIL,
        nodes=(EVIL, "host1"),
        evidence=(EVIL,),
        links=((EVIL, "host1"),),
    )
    links = {"names": [[EVIL], ["host1"]], "rtt": [[None, 0.1], [0.1, None]], "bad": [[0, 1], [0, 0]]}
    return replace(
        base, findings=(finding,), notes=(EVIL,), plan={**base.plan, "master_addr": EVIL}, details={"links": links}
    )


@pytest.mark.parametrize("make", [reports.healthy, reports.loopback, reports.missing, reports.hostile, evil_report])
def test_only_our_own_tags(make: Callable[[], Report]) -> None:
    tags = seen(html.render(make()))
    names = [name for name, _ in tags]
    assert names.count("script") == names.count("style") == 1
    assert not {"img", "iframe", "object", "link", "form", "svg"} & set(names)
    known = {
        "class",
        "title",
        "charset",
        "http-equiv",
        "content",
        "name",
        "type",
        "lang",
        "open",
        "id",
        "checked",
        "scope",
        "href",
        "rel",
    }
    assert all((attributes["href"] or "").startswith(SITE) for _, attributes in tags if "href" in attributes)
    assert {key for _, attributes in tags for key in attributes} <= known


def test_the_verdict_and_its_cause_come_first_then_the_fix_and_what_to_run_next() -> None:
    page = html.render(replace(reports.loopback(), details={}))
    body = page[page.index("<body>") :]
    told = [
        "<h1",
        "gloo on host0 and host1 advertises 127.0.1.1",
        "Fix on host[0-1]:",
        "<b>Next:</b>",
        "2 nodes x 2 ranks",
    ]
    places = [body.index(one) for one in [*told, "<h2>Stages</h2>"]]
    assert places == sorted(places)
    assert "distdoctor check --nnodes 2 --master-addr host0" in body


def test_long_evidence_is_folded_below_the_fix() -> None:
    root = reports.loopback().findings[0]
    for lines, folded in ((4, False), (5, True)):
        long = replace(root, evidence=tuple(f"line {number}" for number in range(lines)))
        page = html.render(reports.report(2, "fail", (long,)))
        assert (page.index("<li>line 0") > page.index("Fix on")) is folded
        assert (f"<summary>Evidence ({lines} lines)</summary>" in page) is folded


def test_why_a_stage_was_skipped_is_text() -> None:
    page = html.render(reports.loopback())
    assert 'skipped <span class="dim">(not run: needs gloo)</span>' in page


def test_nothing_is_fetched_and_only_our_script_may_run() -> None:
    base, address = reports.loopback(), f"{SITE}/checks/gloo/loopback-address.html"
    page = html.render(replace(base, findings=(replace(base.findings[0], docs_url=address),)))
    policy = next(attributes["content"] for _, attributes in seen(page) if attributes.get("http-equiv")) or ""
    assert "default-src 'none'" in policy and re.search(r"script-src 'sha256-[\w+/=]+'", policy)
    assert [attributes["href"] for _, attributes in seen(page) if "href" in attributes] == [address], "for a click"
    assert not {"src", "srcset", "action"} & {name for _, attributes in seen(page) for name in attributes}


def test_a_template_in_the_facts_is_text() -> None:
    assert "{{ 7*7 }}" in html.render(evil_report())


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")
def test_in_a_browser_nothing_of_a_hostile_report_runs(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(html.render(evil_report()))
    browser = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    done = subprocess.run(
        [*browser, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=60, check=True
    )
    assert "<title>FAIL · distdoctor</title>" in done.stdout
    assert {name for name, _ in seen(done.stdout)} == {name for name, _ in seen(page.read_text())} | {"tbody"}


def measured_report(count: int, name: str) -> Report:
    """A real judgement of as many nodes, with a slow one and a pair that cannot talk."""
    links = usual()

    def link(source: int, to: int) -> tuple[float, float, int] | None:
        seconds, rate, again = links(source, to)
        if {source, to} == {3, 7}:
            return None
        return (20 * seconds, rate / 20, 9) if 9 in (source, to) else (seconds, rate, again)

    cluster = build(with_rows(count, link, name))
    return assemble(cluster, judge(cluster, CHECKS), started_at=reports.WAS, seconds=3.0)


def test_the_links_of_64_nodes_with_long_names_are_a_map_with_figures() -> None:
    page = html.render(measured_report(64, "trainer-worker-pool-blue-5f7c9d-{}.team-a.svc.cluster.local"))
    assert len(page.encode()) < 1 << 20
    cells = re.findall(r'<td class="([trlbs0-9 ]+)"(?: title="([^"]*)")?></td>', page)
    assert len(cells) == 64 * 64
    (bad,) = {told for kind, told in cells if kind == "b"}
    assert bad.startswith("does not work, mesh/") and sum(kind == "b" for kind, _ in cells) == 2
    assert sum(kind == "s" for kind, _ in cells) == 64
    of_slow = [told for kind, told in cells if "t3" in kind.split()]
    assert len(of_slow) == 2 * 63 and all("9 % sent again" in told for told in of_slow)
    assert sum("MB/s" in told for _, told in cells) == 2 * 64, "above 32 nodes throughput is of neighbours"


def test_the_links_of_many_nodes_are_folded() -> None:
    page = html.render(measured_report(130, "gpu{:03}"))
    assert '<th scope="col">gpu[000-002]</th>' in page and "neighbours by name share a row" in page
    assert page.count("</td>") < 64 * 64 + 2000
    assert re.search(r'class="[^"]*\bb" title="[^"]*1 not working', page)


@pytest.mark.parametrize(("count", "most"), [(64, 1 << 20), (1024, 5 << 20)])
def test_many_nodes_stay_small(count: int, most: int) -> None:
    links = tuple((f"host{n}", f"host{(n + 1) % count}") for n in range(0, count, 5))
    finding = Finding("Links are bad.", check="mesh/slow-link", id="mesh/slow-link", severity="warn", links=links)
    page = html.render(reports.report(count, "warn", (finding,)))
    assert len(page.encode()) < most
    assert ("of 1024 nodes those that" in page) == (count > 64)
    assert page.count('class="b"') >= min(count // 5, 12)


def test_fixes_of_one_option_are_one_remedy_and_others_are_alternatives() -> None:
    finding = Finding(
        "It.",
        check="gloo/loopback-address",
        severity="fail",
        fixes=(
            Fix("Set it.", ("host0",), 1, env={"A": "1"}),
            Fix("Set it.", ("host1",), 1, env={"A": "2"}),
            Fix("Start it.", ("host0",), 2, commands=("start",)),
            Fix("Start it.", ("host1",), 2, commands=("start",)),
            Fix("Stop it.", ("host1",), 2),
        ),
    )
    told = [(one.word, one.on, one.lines) for one in remedies(finding)]
    assert told == [
        ("Fix", "host0", ("export A=1",)),
        ("And", "host1", ("export A=2",)),
        ("Or", "host[0-1]", ("start",)),
        ("And", "host1", ()),
    ]
    page = html.render(reports.report(2, "fail", (finding,)))
    assert [page.index(said) for said in ("<b>Fix on host0:", "<b>And on host1:", "<b>Or on host[0-1]:")]
    assert "Or on host1" not in page
