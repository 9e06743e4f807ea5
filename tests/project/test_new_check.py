"""scripts/new-check: what it lays out fails until it is filled in, and then it is a check like the others."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.namespaces import ENV, ROOT

CHECK = "checks/host/queue_tiny.py"
TEST = "tests/checks/host/test_queue_tiny.py"
CASES = "tests/lab/cases/host.py"
FILLED = {
    CHECK: {
        "TODO: the title, a short sentence that names what is wrong.": "The queue of connections is tiny.",
        "TODO: what PyTorch says or does, in its own words, and how long it takes.": "Ranks that wait.",
        "TODO: what is wrong, and how it comes to be.": "A limit.",
        "TODO: what puts it right.": "Raise it.",
        "TODO: where the same facts are no fault, or only a warning.": "Always.",
        "TODO: other/checks, by-id": "host/open-files-limit",
        "TODO: why a warning matters to a job that starts all the same, in a clause": "it is slower",
        (
            '# TODO: PREVENTS = "...", a milestone of distdoctor/model/milestones.py that such a job does not reach; '
            "only warns: none\n"
        ): "",
        "TODO: what is wrong on {names_of(bad)}.": "The queue of {names_of(bad)} is tiny.",
        "TODO: the value that was seen": "8",
        "TODO: what to do, with real values.": "Raise it.",
        'commands=("TODO",)': 'commands=("true",)',
        "TODO: by node.limits, node.system, node.network, node.mesh or node.plan; what is not known is not bad.": "8.",
        "return False": "return node.limits.pids_max == 8",
    },
    TEST: {
        "TODO: healthy nodes with the fault on host1, by tests/facts_builder.py and tests/clusters/*.py.": "8.",
        "return a, b": "return a, limited(b, pids_max=8)",
        "from tests.facts_builder": "from tests.clusters.limits import limited\nfrom tests.facts_builder",
        "TODO: the fault": "8 on one",
        "TODO: what looks like it and is not": "no limit",
        "TODO: the first option": "raised",
        '("TODO",)': '("true",)',
    },
}


def new_check(root: Path, name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "scripts/new-check", name],
        cwd=root,
        env={**ENV, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def failed(root: Path, *tests: str) -> set[str]:
    """The names of the tests that fail there."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "queue or table or page", *tests]
    env = {**ENV, "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode in (0, 1), done.stdout[-3000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    return {line.split()[1].rpartition("::")[2].partition("[")[0] for line in lines}


def files(root: Path) -> dict[str, bytes]:
    """Every file there, but what Python compiled."""
    found = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path): path.read_bytes() for path in found}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of what the script and the tests of the checks need."""
    root = tmp_path / "clone"
    for folder in ("checks", "distdoctor", "scripts", "tests"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("recorded", "lab"))
    shutil.copytree(ROOT / "tests/lab/cases", root / "tests/lab/cases")
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def test_what_is_laid_out_fails_until_it_is_filled_in(clone: Path) -> None:
    before = (clone / CASES).read_text()
    done = new_check(clone, "host/queue-tiny")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:3] == [CHECK, TEST, f"{CASES}: the last of CASES"]
    tests = (TEST, "tests/checks/test_tables.py", "tests/checks/test_pages.py")
    assert failed(clone, *tests) >= {"test_found", "test_left_alone", "test_cured", "test_nothing_is_left_to_do"}

    for path, words in FILLED.items():
        text = (clone / path).read_text()
        for word, instead in words.items():
            assert word in text, f"{path} has no longer: {word}"
            text = text.replace(word, instead)
        (clone / path).write_text(text)
    assert failed(clone, *tests) == set()

    added = [line for line in (clone / CASES).read_text().splitlines() if line not in before.splitlines()]
    assert len(added) == 1 and added[0].startswith('    Case("TODO') and '"host/queue-tiny", ["host1"]' in added[0]
    compile((clone / CASES).read_text(), CASES, "exec")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("host/clock-skew", "checks/host/clock_skew.py is there already"),
        ("hosts/clock", "'hosts' is no stage: environment, host,"),
        ("host/Clock_Skew", "no STAGE/NAME"),
        ("host/../x", "no STAGE/NAME"),
        ("host", "no STAGE/NAME"),
    ],
)
def test_what_exists_or_is_no_stage_is_refused_and_nothing_is_written(clone: Path, name: str, why: str) -> None:
    before = files(clone)
    done = new_check(clone, name)
    assert done.returncode == 2 and why in done.stderr, done.stderr
    assert files(clone) == before


def test_without_a_name_it_says_how_it_is_called(clone: Path) -> None:
    done = subprocess.run(["bash", "scripts/new-check"], cwd=clone, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "usage: bash scripts/new-check STAGE/NAME" in done.stderr


def test_a_stage_without_cases_in_the_lab_is_said_to_have_none(clone: Path) -> None:
    done = new_check(clone, "gpu/too-warm")
    assert done.returncode == 0 and "no case: the lab has no tests/lab/cases/gpu.py" in done.stdout
