"""What README.md and CONTRIBUTING.md say of the repository is so: counts, files, commands."""

from __future__ import annotations

import re

import pytest

from distdoctor.cli.remote import LEAVING_SECONDS
from distdoctor.launch.wire import SILENT_SECONDS
from tests.facts_builder import CHECKS
from tests.helpers.namespaces import ROOT
from tests.lab.cases import ALL_CASES
from tests.lab.cases.healthy import SHAPES
from tests.lab.test_faults import LIVE
from tests.logs.test_reports import INDEX, NOT_YET, cold

README, CONTRIBUTING = ((ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md"))

BATCHES = {case["split"] for case in INDEX if "cold" in case}
RIGHT, READ, CLAIMED = (sum(numbers) for numbers in zip(*map(cold, BATCHES), strict=True))
FIRST_READ = f"{READ} in {len(BATCHES)} batches that no rule was built from, each after the one before was mended"


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (r"(\d+) checks;", len(CHECKS)),
        (r"the lab has (\d+) cases\s+of\s+faults", len(ALL_CASES)),
        (r"(\d+) cases\s+live", len(LIVE)),
        (r"and (\d+) healthy shapes", len(SHAPES)),
        (r"message lines of (\d+) public reports", len(INDEX)),
        (r"(\d+) as they should be; when", len(INDEX) - len(NOT_YET)),
        (rf"then of {FIRST_READ}: (\d+, and a cause too many in \d+)", f"{RIGHT}, and a cause too many in {CLAIMED}"),
    ],
    ids=["checks", "cases", "cases live", "shapes", "reports", "reports judged", "first read"],
)
def test_the_counts_are_those_of_today(words: str, count: int) -> None:
    assert re.findall(words, README) == [str(count)], "write today's number into README.md, under Measured"


def test_how_soon_a_line_that_is_gone_is_noticed() -> None:
    found = re.search(r"ends what was started there within (\d+) s; a\s+line .* noticed after (\d+) s", README)
    assert found is not None
    assert int(found[1]) > LEAVING_SECONDS and int(found[2]) == SILENT_SECONDS


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_the_files_that_are_named_are_there(text: str) -> None:
    """But for the check that is made up to show how one is added."""
    named = set(re.findall(r"(?<![\w/])((?:tests|checks|distdoctor|scripts|benchmarks|docs)/[\w./*-]*\w/?)", text))
    made_up = {path for path in named if "queue_tiny" in path}
    missing = [path for path in sorted(named - made_up) if not (ROOT / path).exists()]
    assert missing == []


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_the_targets_of_make_that_are_named_are_there(text: str) -> None:
    targets = set(re.findall(r"(?m)^(\w+):", (ROOT / "Makefile").read_text()))
    assert set(re.findall(r"(?m)(?:^    |`)make (\w+)", text)) <= targets


def test_every_package_is_on_the_map() -> None:
    packages = {path.parent.name for path in (ROOT / "distdoctor").glob("*/__init__.py")}
    assert set(re.findall(r"(?m)^\| \d \| `(\w+)/`", CONTRIBUTING)) == packages


def test_each_function_of_the_example_is_where_it_is_said_to_be() -> None:
    told = re.findall(r"`(?:\w+\.)?(\w+)(?:\(\))?` in `(distdoctor/\S+?|tests/\S+?)`", CONTRIBUTING)
    assert len(told) >= 4
    for name, path in told:
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text()), f"{name} is not in {path}"
