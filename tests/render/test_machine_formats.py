"""Formats for programs: the reader made for each reads it back, also from a report with hostile text."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml
from prometheus_client.parser import text_string_to_metric_families

from distdoctor.cli.app import run
from distdoctor.cli.output import report_path
from distdoctor.model.errors import UsageError
from distdoctor.model.facts import FactsFile, encode
from distdoctor.model.report import Report
from distdoctor.render import github, junit, markdown, nagios, prometheus
from tests.facts_builder import healthy, loopback_name
from tests.judge.test_coverage import report as judged_report
from tests.render import reports
from tests.render.test_hostile import EVERYTHING, hostile

REPORTS = (reports.healthy, reports.loopback, reports.missing, reports.hostile)
each = pytest.mark.parametrize("make", REPORTS, ids=lambda make: make.__name__)


class TestJunit:
    @each
    def test_it_is_read_back(self, make: Callable[[], Report], tmp_path: Path) -> None:
        path = tmp_path / "junit.xml"
        path.write_text(junit.render(make()))
        (suite,) = JUnitXml.fromfile(str(path))
        cases = list(suite)
        assert suite.tests == len(cases)
        assert suite.failures == sum(bool(case.is_failure) for case in cases)
        assert suite.skipped == sum(bool(case.is_skipped) for case in cases)
        wrong = make().verdict in ("fail", "incomplete")
        assert (suite.failures + suite.errors > 0) == wrong

    def test_whatever_is_in_it_it_is_xml(self) -> None:
        (suite,) = JUnitXml.fromstring(junit.render(hostile(EVERYTHING)).encode())
        assert suite.failures == 1

    def test_what_passed_is_seen_and_what_was_not_judged_says_why(self, tmp_path: Path) -> None:
        told = judged_report(*healthy(2))
        (suite,) = JUnitXml.fromstring(junit.render(told).encode())
        assert suite.tests == len(told.checks) > 60
        assert suite.skipped == sum(check.status == "not-judged" for check in told.checks) > 0
        assert all(case.result[0].message for case in suite if case.is_skipped)


class TestPrometheus:
    @each
    def test_it_is_read_back(self, make: Callable[[], Report]) -> None:
        told = make()
        found = {family.name: family for family in text_string_to_metric_families(prometheus.render(told))}
        verdict = {sample.labels["verdict"]: sample.value for sample in found["distdoctor_verdict"].samples}
        assert verdict == {name: float(name == told.verdict) for name in prometheus.VERDICTS}
        assert all(family.type == "gauge" and family.documentation for family in found.values())
        assert found["distdoctor_duration_seconds"].samples[0].value == pytest.approx(told.seconds)

    def test_labels_are_bounded(self) -> None:
        finding = reports.loopback().findings[0]
        from dataclasses import replace

        many = replace(finding, nodes=tuple(f"n{number}" for number in range(5000)))
        text = prometheus.render(reports.report(2, "fail", (many,)))
        assert text.count("distdoctor_node_blamed{") == prometheus.MAX_NODES


class TestNagios:
    @each
    def test_one_line_of_words_and_figures(self, make: Callable[[], Report]) -> None:
        line = nagios.render(make())
        assert line.count("\n") == 1 and line.count("|") == 1
        words, figures = line.rstrip("\n").split(" | ")
        assert re.fullmatch(r"DISTDOCTOR (OK|WARNING|CRITICAL|UNKNOWN) - \S.*", words)
        for figure in figures.split(" "):
            assert re.fullmatch(r"[a-z]+=\d+(\.\d+)?s?;;;0", figure), figure

    @pytest.mark.parametrize(("facts", "status"), [(healthy(2), 0), (tuple(map(loopback_name, healthy(2))), 2)])
    def test_its_own_exit_statuses(
        self, facts: Any, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "facts.json"
        path.write_bytes(encode(FactsFile(facts, "0")))
        assert run(["diagnose", str(path), "-o", "nagios"]) == status
        assert capsys.readouterr().out.startswith(f"DISTDOCTOR {nagios.WORDS[status]} - ")

    def test_a_wrong_command_line_is_unknown(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["check", "-o", "nagios", "--nnodes", "many"]) == nagios.UNKNOWN
        assert capsys.readouterr().out.startswith("DISTDOCTOR UNKNOWN - ")


class TestGithub:
    @each
    def test_every_line_is_one_of_ours(self, make: Callable[[], Report]) -> None:
        lines = github.render(make()).splitlines()
        assert all(re.match(r"::(error|warning|notice) title=[^:,\n]*::\S", line) for line in lines)
        assert lines[-1].startswith("::notice title=distdoctor%3A ")

    def test_nothing_from_outside_is_a_command(self) -> None:
        assert github.command("error", "a:b,c", "x\n::set-env name=A::b\r%") == (
            "::error title=a%3Ab%2Cc::x%0A::set-env name=A::b\\x0d%25"
        )

    def test_the_summary_of_the_step_is_added_to(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        facts, summary = tmp_path / "facts.json", tmp_path / "summary.md"
        facts.write_bytes(encode(FactsFile(tuple(map(loopback_name, healthy(2))), "0")))
        summary.write_text("before\n")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
        assert run(["diagnose", str(facts), "-o", "github"]) == 1
        assert "::error title=gloo/loopback-address" in capsys.readouterr().out
        assert summary.read_text().startswith("before\n## ")


class TestMarkdown:
    @each
    def test_what_comes_from_outside_is_code(self, make: Callable[[], Report]) -> None:
        """Without the blocks and the code, nothing is left but our own words."""
        text = re.sub(r"(?ms)^(`{3,})\w*\n.*?^\1$", "", markdown.render(make()))
        text = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", text)
        assert not re.search(r"host\d|evil|\[|\]\(|<(?!/?details>|/?summary>)", text), text

    @pytest.mark.parametrize("text", ["a`b", "`a`", "``", "a | b", "[x](y)", "@team", "a\nb"])
    def test_code_stays_code(self, text: str) -> None:
        said = markdown.code(text)
        fence = re.match("`+", said)
        assert fence and said.endswith(fence[0]) and fence[0] not in said[len(fence[0]) : -len(fence[0])].strip("`")
        assert "|" not in said and "\n" not in said


class TestSeveralAtOnce:
    @pytest.fixture
    def facts(self, tmp_path: Path) -> str:
        path = tmp_path / "facts.json"
        path.write_bytes(encode(FactsFile(tuple(map(loopback_name, healthy(2))), "0")))
        return str(path)

    def test_text_and_files(self, facts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        page, metrics = tmp_path / "report.html", tmp_path / "distdoctor.prom"
        assert run(["diagnose", facts, "-o", "text", "-o", f"html={page}", "-o", f"prometheus={metrics}"]) == 1
        assert "FAIL" in capsys.readouterr().out
        assert page.read_text().startswith("<!doctype html>")
        assert "distdoctor_verdict" in metrics.read_text()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["distdoctor.prom", "facts.json", "report.html"]

    def test_files_alone_leave_the_text_on_stdout(
        self, facts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["diagnose", facts, "-o", f"json={tmp_path}/report.json"]) == 1
        assert "FAIL" in capsys.readouterr().out
        assert (tmp_path / "report.json").read_text().startswith("{")

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("-o", "json", "-o", "text"), "cannot both go to stdout"),
            (("--json", "-o", "nagios"), None),
            (("-o", "html=/nowhere/x.html"), "there is no folder"),
            (("-o", "html="), "needs the name of a file"),
            (("-o", "pdf=x"), "is not known"),
        ],
    )
    def test_what_makes_no_sense(
        self, words: tuple[str, ...], said: str | None, facts: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["diagnose", facts, *words]) in (2, nagios.UNKNOWN)
        assert said is None or said in capsys.readouterr().err

    def test_a_link_stays_one_and_what_it_leads_to_is_written(
        self, facts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "there").mkdir()
        link, pipe = tmp_path / "latest.json", tmp_path / "pipe.json"
        link.symlink_to(tmp_path / "there/report.json")
        assert run(["diagnose", facts, "-o", f"json={link}"]) == 1
        assert link.is_symlink() and (tmp_path / "there/report.json").read_text().startswith("{")
        os.mkfifo(tmp_path / "fifo")
        pipe.symlink_to(tmp_path / "fifo")
        assert run(["diagnose", facts, "-o", f"json={pipe}"]) == 2 and pipe.is_symlink()
        assert "is no plain file" in capsys.readouterr().err

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root makes links of other users")
    def test_a_link_that_another_user_left_in_a_folder_for_all_is_not_followed(self, tmp_path: Path) -> None:
        """As the kernel does not, where the shell writes to it (fs.protected_symlinks)."""
        for folder, link in ((tmp_path / "all/own", 4712), (tmp_path / "all", 4711)):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "r.json").symlink_to(tmp_path / "r.json")
            os.chown(folder / "r.json", link, link, follow_symlinks=False)
        assert report_path("json", str(tmp_path / "all/own/r.json")) == tmp_path / "r.json"
        (tmp_path / "all").chmod(0o1777)
        with pytest.raises(UsageError, match="is a link that another user left"):
            report_path("json", str(tmp_path / "all/r.json"))
        os.chown(tmp_path / "all/r.json", 0, 0, follow_symlinks=False)
        assert report_path("json", str(tmp_path / "all/r.json")) == tmp_path / "r.json"

    @pytest.mark.parametrize("path", ["/dev/stdout", "/dev/stderr", "/dev/fd/1", "/proc/self/fd/1", "/dev/null"])
    def test_devices_are_no_files_to_be_put_something_else_in_the_place_of(self, path: str) -> None:
        with pytest.raises(UsageError, match="is no plain file"):
            report_path("json", path)

    def test_a_file_that_cannot_be_written_is_no_success(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "facts.json"
        path.write_bytes(encode(FactsFile(healthy(2), "0")))
        assert run(["diagnose", str(path), "-o", "html=/proc/report.html"]) == 3
        assert "could not be written" in capsys.readouterr().err
