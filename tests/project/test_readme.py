"""Tests of what README.md and CONTRIBUTING.md say of the repository is so: files, commands, and no counts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from distdoctor.cli.hosts.agent import LEAVING_SECONDS
from distdoctor.remote.connection import SILENT_SECONDS
from scripts import validation
from tests.facts_builder import CHECKS
from tests.helpers.namespaces import ROOT
from tests.lab.cases import ALL_CASES
from tests.lab.cases.healthy import SHAPES
from tests.lab.test_typed_lines import FIRST, SECOND

README, CONTRIBUTING, GUIDE = (
    (ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", "docs/guides/writing-a-check.md")
)

DOCUMENTS = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*/*.md")))
}
COUNTED = re.compile(
    r"\d[\d,]* (?:of \d+ )?(?:more |other |healthy |public )?(?:checks|cases|shapes|reports|tests)\b|\d+ of \d{2,}|"
    r"\b(?:median|slowest) \d|\d MB/s\b"
)
"""Counts, scores and timings, which age."""


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_document_states_what_ages(name: str) -> None:
    """docs/validation.md does, and is generated; a new check changes no document."""
    text = validation.SUMMARY.sub("", DOCUMENTS[name])  # README.md repeats rows of that page
    text = re.sub(r"(?m)^    .*$", "", text)  # commands, and what they print
    assert COUNTED.findall(text) == [], "that is for benchmarks/measured.json or scripts/validation.py"


def test_counts_would_be_seen() -> None:
    for text in ("There are 195 checks", "330 of 330", "2043 public reports", "median 4.9 s", "77 healthy shapes"):
        assert COUNTED.search(text), text


def test_the_page_of_counts_is_made_of_what_is_there(tmp_path: Path) -> None:
    """As long as its script works, the page that is kept may be older than the newest check."""
    validation.main([str(tmp_path / "validation.md")])
    page = (tmp_path / "validation.md").read_text()
    judging = sum(not check.of_logs_alone for check in CHECKS)
    assert f"| **all** | **{len(CHECKS)}** | **{len(CHECKS) - judging}** | **{len(ALL_CASES)}** |" in page
    assert f"| {len(ALL_CASES)} of {len(ALL_CASES)} |" in page and f"| {len(SHAPES)} of {len(SHAPES)} |" in page
    kept = (ROOT / "docs/validation.md").read_text()
    assert [line for line in kept.splitlines() if line.startswith("#")] == [
        line for line in page.splitlines() if line.startswith("#")
    ]


def test_how_soon_a_line_that_is_gone_is_noticed() -> None:
    found = re.search(
        r"ends the processes on each host within (\d+) s. A silent connection counts as lost after (\d+) s",
        DOCUMENTS["docs/guides/ssh.md"],
    )
    assert found is not None
    assert int(found[1]) > LEAVING_SECONDS and int(found[2]) == SILENT_SECONDS


@pytest.mark.parametrize("text", [README, CONTRIBUTING, GUIDE], ids=["README", "CONTRIBUTING", "guide"])
def test_the_files_that_are_named_are_there(text: str) -> None:
    """But for the check that is made up to show how one is added."""
    named = set(re.findall(r"(?<![\w/])((?:tests|checks|distdoctor|scripts|benchmarks|docs)/[\w./*-]*\w/?)", text))
    made_up = {path for path in named if "queue_tiny" in path or "our_limit" in path}
    missing = [path for path in sorted(named - made_up) if not (ROOT / path).exists()]
    assert missing == []


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_the_targets_of_make_that_are_named_are_there(text: str) -> None:
    targets = set(re.findall(r"(?m)^(\w+):", (ROOT / "Makefile").read_text()))
    assert set(re.findall(r"(?m)(?:^    |`)make (\w+)", text)) <= targets


def test_the_readme_is_short() -> None:
    assert len(README.split()) <= 900 and len(README.splitlines()) <= 150


def test_the_readmes_first_screen_sets_up() -> None:
    """On a fresh machine: tests/project/test_setup.py runs what these commands do."""
    first = README.splitlines()[:12]
    assert [line.split("#")[0].strip() for line in first if line.startswith("    ")] == [
        "bash scripts/check",
        "bash scripts/test",
    ]


def test_each_line_of_code_in_the_readme_can_be_pasted() -> None:
    """Alone, and without an ellipsis or a remark that the shell would take for words."""
    lines = [
        line.strip() for line in README.splitlines() if re.match("    +[^A-Z]", line)
    ]  # the rest is a list's prose
    assert len(lines) >= 12
    for line in lines:
        subprocess.run(["bash", "-n", "-c", line], check=True)
        assert "..." not in line and "  " not in line.partition("#")[0].strip(), line


def test_the_readme_tells_two_nodes_the_lines_that_the_lab_types() -> None:
    node0, node1 = FIRST, SECOND.replace("10.77.0.10", "HOST")
    assert [f"        distdoctor check {words}" for words in (node0, node1)] == [
        line for line in README.splitlines() if line.startswith("        distdoctor check --nnodes")
    ]


def test_the_readme_repeats_rows_of_the_page_of_results() -> None:
    repeated = validation.SUMMARY.search(README)
    kept = (ROOT / "docs/validation.md").read_text()
    assert repeated is not None and repeated[0] == validation.summary(kept), "make validation"
    assert repeated[0].count("\n") == 2 + 4


def test_contributing_is_short() -> None:
    assert len(CONTRIBUTING.split()) <= 700


def test_every_package_is_on_the_map() -> None:
    packages = {path.parent.name for path in (ROOT / "distdoctor").glob("*/__init__.py")}
    assert set(re.findall(r"(?m)^\| \d \| `(\w+)/`", CONTRIBUTING)) == packages


def test_each_function_of_the_example_is_where_it_is_said_to_be() -> None:
    told = re.findall(r"`(?:\w+\.)?(\w+)(?:\(\))?` in `(distdoctor/\S+?|tests/\S+?)`", GUIDE)
    assert len(told) >= 4
    for name, path in told:
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text()), f"{name} is not in {path}"
