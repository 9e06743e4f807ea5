"""Every check's page is whole, and what it and its declarations name exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from distdoctor.judge.catalog import SECTIONS, Check
from distdoctor.judge.causes import is_symptom, matches_cause
from distdoctor.model.stages import MILESTONES
from tests.facts_builder import CHECKS
from tests.project.test_vocabulary import CLEAN

IDS = {check.id for check in CHECKS}
PACKAGE = Path(__file__).resolve().parents[2] / "distdoctor"
EXAMPLES = {
    **{path: {"gloo/loopback-address"} for path in ("cli/explain.py", "cli/help.py", "cli/mcp.py")},
    "cli/health.py": {"gpu/busy"},
    "logs/matches.py": {"network/engine-port-in-use"},
}
"""Where an id is shown to the user as an example; the one of a GPU in use, which is no ill health of a node with a job;
and of a port that a whole log shows to be an engine's."""
LIKELY = "cli/likely_causes.py"
"""Messages that prove no cause, each with checks in the order of how often they were it: no rule of a check."""
ALLOWED = {
    "distdoctor.check_api",
    "__future__",
    "bisect",
    "collections",
    "collections.abc",
    "dataclasses",
    "difflib",
    "shlex",
    "statistics",
}
each = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)


def sections(page: str) -> dict[str, str]:
    """Heading -> text."""
    parts = re.split(r"(?m)^(.+)\n-{3,}\n", page)
    return {heading: text.strip() for heading, text in zip(parts[1::2], parts[2::2], strict=True)}


confirmed = pytest.mark.parametrize(
    "check", [check for check in CHECKS if check.stage in CLEAN], ids=lambda check: check.id
)


@each
def test_page_has_all_sections_in_order_and_text_in_each(check: Check) -> None:
    found = sections(check.page)
    assert tuple(found) == SECTIONS
    assert all(found.values())


@confirmed
def test_fix_and_what_confirms_it_have_a_command(check: Check) -> None:
    found = sections(check.page)
    assert all(re.search(r"`[^`]{4,}`", found[name]) for name in ("Fix", "Confirm with"))
    # A report on a log has the first paragraph: it is to be an instruction by itself.
    assert "`" in re.split(r"\n\s*\n", found["Fix"])[0]


@each
def test_underlines_are_as_long_as_their_headings(check: Check) -> None:
    for heading, line in re.findall(r"(?m)^(.+)\n(-{3,})$", check.page):
        assert len(heading) == len(line)


@each
def test_see_also_names_other_checks(check: Check) -> None:
    named = [name.strip() for name in sections(check.page)["See also"].replace("\n", " ").split(",")]
    assert set(named) <= IDS - {check.id}
    assert len(named) == len(set(named))


@each
def test_what_it_follows_from_exists_and_is_not_itself(check: Check) -> None:
    for pattern in (*check.follows, *check.follows_anywhere):
        assert any(matches_cause(other, pattern) for other in CHECKS), pattern
        assert not matches_cause(check, pattern)


@each
def test_few_exceptions_are_named(check: Check) -> None:
    """Causes come from the milestones; a check that names dozens of others has missed one."""
    assert len(check.follows) + len(check.follows_anywhere) <= 8


@each
def test_what_makes_the_job_fail_prevents_something(check: Check) -> None:
    assert check.prevents or check.severity != "fail"


def test_every_milestone_is_prevented_by_some_check() -> None:
    assert {check.prevents for check in CHECKS} - {""} == set(MILESTONES)


def test_no_module_names_a_check() -> None:
    """All knowledge of a failure is in its file: a site's own check can do as much as ours."""
    any_id = re.compile(rf"(?<![\w/])({'|'.join(map(re.escape, IDS))})(?![\w/-])")
    named = {
        path.relative_to(PACKAGE).as_posix(): {*any_id.findall(path.read_text())} for path in PACKAGE.rglob("*.py")
    }
    assert {path: ids for path, ids in named.items() if ids and path != LIKELY} == EXAMPLES


def test_no_two_checks_follow_from_each_other() -> None:
    """But where a finding says itself what it follows from, as one that waiting may cure does."""
    told_by_the_finding = {
        "network/port-filtered",
        "network/port-rejected",
        "network/port-refused",
        "network/master-unreachable",
    }
    for check in CHECKS:
        for other in CHECKS:
            mutual = _follows(check, other) and _follows(other, check)
            assert not mutual or {check.id, other.id} & told_by_the_finding, (check.id, other.id)


def _follows(check: Check, other: Check) -> bool:
    return is_symptom(check, other) or any(matches_cause(other, p) for p in (*check.follows, *check.follows_anywhere))


@each
def test_imports_are_those_of_a_check(check: Check) -> None:
    """A check reads facts only: no sockets, clock or environment."""
    tree = ast.parse(check.path.read_text())
    for item in ast.walk(tree):
        if isinstance(item, ast.ImportFrom):
            assert item.module in ALLOWED, item.module
        elif isinstance(item, ast.Import):
            assert {alias.name for alias in item.names} <= {"os", "re", "shlex", "statistics"}
        elif isinstance(item, ast.Attribute) and isinstance(item.value, ast.Name) and item.value.id == "os":
            assert item.attr == "strerror"


@each
def test_title_is_a_short_sentence(check: Check) -> None:
    assert 10 <= len(check.title) <= 80 and not check.title.endswith(".")
