"""Every check's page is whole, and what it and its declarations name exists."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatchcase

import pytest

from distdoctor.judge.catalog import SECTIONS, Check
from tests.facts_builder import CHECKS

IDS = {check.id for check in CHECKS}
ALLOWED = {
    "distdoctor.check_api",
    "__future__",
    "bisect",
    "collections",
    "collections.abc",
    "dataclasses",
    "statistics",
}
each = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)


def sections(page: str) -> dict[str, str]:
    """Heading -> text."""
    parts = re.split(r"(?m)^(.+)\n-{3,}\n", page)
    return {heading: text.strip() for heading, text in zip(parts[1::2], parts[2::2], strict=True)}


@each
def test_page_has_all_sections_in_order_and_text_in_each(check: Check) -> None:
    found = sections(check.page)
    assert tuple(found) == SECTIONS
    assert all(found.values())


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
        assert any(fnmatchcase(other, pattern) for other in IDS), pattern
        assert not fnmatchcase(check.id, pattern)


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
    return any(fnmatchcase(other.id, p) for p in (*check.follows, *check.follows_anywhere))


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
