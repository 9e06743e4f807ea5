"""scripts/new-check: what it writes is a check that works, and only the lines to replace are left to do."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.new_check import with_line
from tests.helpers.namespaces import ENV, ROOT

CHECK = "checks/host/queue_tiny.py"
TEST = "tests/checks/host/test_queue_tiny.py"
LEFT = {"test_nothing_is_left_to_do"}
pytestmark = pytest.mark.timeout(300)


def new_check(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(root / "scripts/new-check"), *arguments],
        cwd=root.parent,
        env={**ENV, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )


def failed(root: Path, *arguments: str) -> set[str]:
    """The names of the tests that fail there."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    env = {**ENV, "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode in (0, 1), done.stdout[-3000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    return {line.split()[1].rpartition("::")[2].partition("[")[0] for line in lines}


def files(root: Path) -> dict[str, bytes]:
    """Every file there, but what Python compiled."""
    found = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def fill_in(*paths: Path) -> None:
    """Do what is to be done in these files, as shortly as it can be."""
    for path in paths:
        lines = [
            line for line in path.read_text().splitlines() if "delete these" not in line and "Would the" not in line
        ]
        path.write_text("\n".join(lines).replace("TODO", "done") + "\n")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of what the script and the tests of the checks need."""
    root = tmp_path / "clone"
    for folder in ("checks", "distdoctor", "scripts", "tests"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("recorded", "reports"))
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def test_a_check_of_facts_works_and_only_its_todos_are_left(clone: Path) -> None:
    before = files(clone)
    done = new_check(clone, "host/queue-tiny")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"Wrote {CHECK}  and  {TEST}\nIts tests pass: ")
    assert f"    {CHECK}, lines 1, 4," in done.stdout
    assert done.stdout.endswith("Then type:\n    bash scripts/test tests/checks -k 'queue-tiny or queue_tiny'\n")
    after = files(clone)
    assert {path for path in after if after[path] != before.get(path)} == {CHECK, TEST}
    arguments = ("tests/checks", "-k", "queue-tiny or queue_tiny")
    assert failed(clone, *arguments) == LEFT
    fill_in(clone / CHECK, clone / TEST)
    assert failed(clone, *arguments) == set()
    broken = (clone / CHECK).read_text().replace("0 <= stack <", "0 > stack >")
    (clone / CHECK).write_text(broken)
    assert failed(clone, *arguments) == {"test_found", "test_cured"}


def test_a_check_of_logs_works_and_only_its_todos_are_left(clone: Path) -> None:
    check, wordings = "checks/process/engine_stall.py", "tests/logs/wordings/process.py"
    done = new_check(clone, "--log", "process/engine-stall")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"Wrote {check}  and  {wordings}\nIts tests pass: ")
    arguments = ("tests/logs/test_wordings.py", "tests/checks", "-k", "engine-stall or engine_stall")
    assert failed(clone, *arguments) == LEFT
    fill_in(clone / check, clone / wordings)
    assert failed(clone, *arguments) == set()


@pytest.mark.parametrize("path", sorted((ROOT / "tests/logs/wordings").glob("[a-z]*.py")), ids=lambda path: path.stem)
def test_a_line_is_added_at_the_end_of_the_causes(path: Path) -> None:
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    exec(path.read_text(), before)
    exec(with_line(path.read_text(), "mesh/new", "words"), after)
    assert after["CAUSES"] == (*before["CAUSES"], ("mesh/new", "words")) and after["SYMPTOMS"] == before["SYMPTOMS"]


@pytest.mark.parametrize(("kind", "name"), [("--fact", "host/our-limit"), ("--log", "process/our-limit")])
def test_a_check_of_a_site_stands_in_its_own_folder(tmp_path: Path, kind: str, name: str) -> None:
    done = new_check(ROOT, kind, "--site", str(tmp_path / "site"), name)
    assert done.returncode == 0, done.stdout + done.stderr
    check, test = tmp_path / f"site/{name.replace('-', '_')}.py", tmp_path / "site/test_our_limit.py"
    assert sorted((tmp_path / "site").rglob("*.py")) == sorted([check, test])
    use = (
        f"and to use it, on every node:\n    distdoctor check --checks {tmp_path}/site\n"
        if kind == "--fact"
        else f"and to use it:\n    distdoctor diagnose --checks {tmp_path}/site LOGS...\n"
    )
    assert done.stdout.endswith(f"bash scripts/test {test}\n{use}")
    for path in (check, test):
        assert "tests/logs" not in path.read_text() and max(map(len, path.read_text().splitlines())) <= 120
    assert failed(ROOT, str(test)) == LEFT
    fill_in(check, test)
    assert failed(ROOT, str(test)) == set()
    if kind == "--log":
        a_cause = check.read_text()
        check.write_text(a_cause.replace(' a log has"),', ' a log has", shows="symptom", why="x"),'))
        assert check.read_text() != a_cause and failed(ROOT, str(test)) == set()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["host/clock-skew"], "checks/host/clock_skew.py is there already"),
        (["--log", "host/clock-skew"], "checks/host/clock_skew.py is there already"),
        (["hosts/clock"], "'hosts' is no stage: environment, host,"),
        (["process/x"], "'process' is no stage: environment, .*--log has two more: launch, process"),
        (["host/Clock_Skew"], "is not STAGE/NAME"),
        (["host/../x"], "is not STAGE/NAME"),
        (["host"], "is not STAGE/NAME"),
        ([], "the following arguments are required: STAGE/NAME"),
        (["--fact", "--log", "host/x"], "not allowed with"),
    ],
)
def test_what_exists_or_is_no_stage_is_refused_and_nothing_is_written(arguments: list[str], why: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in (ROOT / "checks").glob("*/*.py")}
    done = new_check(ROOT, *arguments)
    assert done.returncode == 2
    assert re.search(why, done.stderr), done.stderr
    assert {path: path.stat().st_mtime_ns for path in (ROOT / "checks").glob("*/*.py")} == before
