"""Loading checks by path: the built-in folder, a site's own, and files that are no checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from distdoctor.judge.catalog import (
    DECLARATIONS,
    BadCheck,
    built_in_folder,
    load,
    load_file,
    page_address,
    problem_of_lines,
    problem_of_names,
)
from distdoctor.judge.engine import judge
from distdoctor.model.cluster import build
from distdoctor.model.stages import stage_index
from tests.facts_builder import healthy

ROOT = Path(__file__).resolve().parents[2]
PAGE = '''"""A site's own failure.

## What you see
It.

## Why it happens
So.

## Fix
Do.

## Confirm with
Look.
"""
'''
CODE = """
from distdoctor.check_api import Cluster, Finding, Iterator

SEVERITY = "warn"
FOLLOWS = ("host/*",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    yield Finding("seen.")
"""


def write(folder: Path, name: str, text: str = PAGE + CODE) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_built_in_checks_are_in_ladder_order() -> None:
    checks = load()
    assert [c.id for c in checks] == sorted((c.id for c in checks), key=lambda i: (stage_index(i.partition("/")[0]), i))
    assert len(checks) > 30
    assert "gloo/loopback-address" in {c.id for c in checks}


def test_a_page_has_an_address_where_there_is_a_site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISTDOCTOR_DOCS_URL", raising=False)
    assert page_address("host/disk-full") == ""
    monkeypatch.setenv("DISTDOCTOR_DOCS_URL", "https://docs.example/")
    assert page_address("host/disk-full") == "https://docs.example/checks/host/disk-full.html"


def test_ids_are_the_paths() -> None:
    for check in load():
        assert check.path == built_in_folder() / f"{check.id.replace('-', '_')}.py"


def test_a_sites_own_folder_is_added(tmp_path: Path) -> None:
    write(tmp_path, "network/our_switch.py")
    (check,) = [c for c in load([tmp_path]) if c.id == "network/our-switch"]
    assert (check.title, check.severity, check.follows, check.stage) == (
        "A site's own failure",
        "warn",
        ("host/*",),
        "network",
    )
    assert check.page.startswith("A site's own failure.\n\nWhat you see")
    assert len(load([tmp_path])) == len(load()) + 1


def test_a_sites_own_check_replaces_the_built_in_one(tmp_path: Path) -> None:
    path = write(tmp_path, "gloo/loopback_address.py")
    (check,) = [c for c in load([tmp_path]) if c.id == "gloo/loopback-address"]
    assert check.path == path
    assert len(load([tmp_path])) == len(load())


@pytest.mark.parametrize("flag", ["-O", "-OO"])
def test_pages_are_there_without_docstrings(flag: str) -> None:
    """python -OO strips them; the page is part of the check."""
    code = "from distdoctor.judge.catalog import load; print(*(f'{c.id} {len(c.page)}' for c in load()))"
    done = subprocess.run([sys.executable, flag, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [word for c in load() for word in (c.id, str(len(c.page)))], done.stderr


def test_two_folders_with_the_same_file_names_do_not_mix(tmp_path: Path) -> None:
    one = load_file(write(tmp_path / "a", "host/x.py"))
    two = load_file(write(tmp_path / "b", "host/x.py", PAGE + CODE.replace("warn", "info")))
    assert (one.severity, two.severity) == ("warn", "info")


def test_nothing_is_left_in_the_folder(tmp_path: Path) -> None:
    write(tmp_path, "host/x.py")
    load([tmp_path])
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["host", "x.py"]
    assert sys.dont_write_bytecode is (sys.flags.dont_write_bytecode == 1)


def test_files_with_an_underscore_are_helpers(tmp_path: Path) -> None:
    write(tmp_path, "host/_helper.py", "raise RuntimeError")
    assert len(load([tmp_path])) == len(load())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "needs a docstring"),
        (CODE, "needs a docstring"),
        (PAGE, "needs a docstring, SEVERITY"),
        (PAGE + CODE.replace('"warn"', '"bad"'), "needs a docstring, SEVERITY"),
        (PAGE + CODE.replace("def judge", "def other"), "judge"),
        (PAGE.replace("## Fix", "## Remedy") + CODE, "lacks the section '## Fix'"),
        (PAGE.replace("## Confirm with", "## See") + CODE, "lacks the section '## Confirm with'"),
        (PAGE + "def (:", "SyntaxError"),
        (PAGE + "import nothing_like_this", "ModuleNotFoundError"),
        (PAGE + CODE + "\n1 / 0\n", "ZeroDivisionError"),
    ],
)
def test_a_file_that_is_no_check_is_named(tmp_path: Path, text: str, told: str) -> None:
    path = write(tmp_path, "host/bad.py", text)
    with pytest.raises(BadCheck, match=r"bad\.py") as err:
        load([tmp_path])
    assert told in str(err.value) and str(path) in str(err.value)


def test_a_folder_that_is_no_stage_is_told(tmp_path: Path) -> None:
    write(tmp_path, "netwrok/x.py")
    with pytest.raises(BadCheck, match=r"'netwrok', which is no stage \(environment, .*, launch, process\)"):
        load([tmp_path])


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadCheck, match="is not a folder"):
        load([tmp_path / "none"])


def test_a_machine_that_starves_this_process_makes_no_built_in_check_a_bad_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it takes: loading all of them took over a minute beside 25 programs that compute."""
    slow = write(tmp_path / "own", "host/slow.py", PAGE + "import time\ntime.sleep(0.3)\n" + CODE)
    monkeypatch.setattr("distdoctor.judge.catalog.SECONDS", 0.001)
    with monkeypatch.context() as patch:
        patch.setattr("distdoctor.judge.catalog.built_in_folder", lambda: slow.parents[1])
        patch.setattr("time.monotonic", iter(range(0, 10**6, 1000)).__next__)
        assert len(load()) == 1
    write(tmp_path, "host/slow.py", PAGE + "import time\ntime.sleep(5)\n" + CODE)
    with pytest.raises(BadCheck, match="did not end within"):
        load([tmp_path])


def test_our_own_are_compiled_once(tmp_path: Path) -> None:
    """And a site's never: nothing is left in its folder, nor of it anywhere."""
    site = write(tmp_path / "site", "host/x.py").parents[1]
    code = "import sys; from pathlib import Path; from distdoctor.judge.catalog import load; load([Path(sys.argv[1])])"
    kept = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "kept")}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run([sys.executable, "-c", code, str(site)], cwd=ROOT, env=kept, check=True)
    made = {path.name.partition(".")[0] for path in (tmp_path / "kept").rglob("checks/*/*.pyc")}
    assert made == {path.stem for path in built_in_folder().glob("*/*.py") if not path.stem.startswith("_")}
    assert not [*(tmp_path / "kept").rglob("site/**/*.pyc")] and [*site.rglob("*.*")] == [site / "host/x.py"]


WRONG = {
    'SEVERITY = "wran"': "SEVERITY (info, warn, fail)",
    'PREVENTS = "store hostd"': "PREVENTS 'store hostd' is no milestone",
    'PREVENTS = ("store hosted",)': "is no milestone",
    'SYMPTOM_OF = "all meet"': "SYMPTOM_OF 'all meet' is no milestone",
    'FOLLOWS = "host/*"': "FOLLOWS and FOLLOWS_ANYWHERE are lists of check ids",
    'FOLLOWS = ("hots/*",)': "FOLLOWS names 'hots/*', no check or milestone",
    'FOLLOWS = ("store hostd",)': "no check or milestone: write 'store hosted'",
    'FOLLOWS_ANYWHERE = ("gloo/loopback-adress",)': "no check or milestone: write 'gloo/loopback-address'",
    'LOOKS_AT = ("host.limit",)': "LOOKS_AT names 'host.limit', which is no part of the facts",
    'LOOKS_AT = "host.limits"': "LOOKS_AT 'host.limits' is no list of parts",
    'HELPED_BY = ("mesh.links",)': "HELPED_BY names 'mesh.links'",
    'VARIABLES = "SITE_QUEUE"': "VARIABLES 'SITE_QUEUE' is no list of names",
    'RESTART = "other-node"': "RESTART 'other-node' is none of no, yes, other-nodes",
    'NEXT = "its log"': "NEXT 'its log' is not a text and a command",
    'INCOMPLETE = "no"': "INCOMPLETE 'no' is no bool",
    'MATTERS = ("it is slow",)': "MATTERS ('it is slow',) is no str",
    'LOG = ("Connection refused",)': "LOG holds Lines",
    'LOG = Line("Connection refused")': "LOG holds Lines",
    'LOG = (Line("Connection refused", show="cause"),)': "unexpected keyword argument 'show'",
    'LOG = (Line("Connection refused", shows="cuase"),)': "shows='cuase' is none of cause, end,",
    "LOG = (Line(111),)": "the literal of a Line is a text or a tuple of texts, not 111",
    "LOG = (Line(()),)": "a Line of LOG has a literal, or a class of ends",
    'LOG = (Line("refused", pattern=None),)': "None is no expression",
    'LOG = (Line("refused", "("),)': "'(' is no expression",
    'LOG = (Line("free", r"(?P<used>\\d+)", above=("usd", "used")),)': "above names 'usd', which is no group",
    'LOG = (Line("link down", ahead_of="nccl/peer-close"),)': "ahead_of names 'nccl/peer-close', no check or milestone",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_misspelt_value_of_a_declaration_is_an_error(tmp_path: Path, line: str) -> None:
    code = CODE.replace('FOLLOWS = ("host/*",)\n', "").replace("import Cluster", "import Line, Cluster")
    path = write(tmp_path, "host/wrong.py", PAGE + code + line + "\n")
    with pytest.raises(BadCheck) as err:
        load([tmp_path])
    assert str(err.value).startswith(f"{path}: ") and WRONG[line] in str(err.value)


def test_a_misspelt_severity_of_a_finding_is_no_clear_check(tmp_path: Path) -> None:
    write(tmp_path, "host/wrong.py", PAGE + CODE.replace('Finding("seen.")', 'Finding("seen.", severity="fial")'))
    (check,) = (check for check in load([tmp_path]) if check.id == "host/wrong")
    judged = judge(build(healthy(2)), [check])
    assert judged.verdict == "incomplete" and "host/wrong: TypeError: its finding: " in judged.broken[0]


def test_no_check_of_ours_misspells_a_declaration() -> None:
    for check in load():
        assert problem_of_names(check.path.read_bytes(), DECLARATIONS) == "", check.id
        assert problem_of_lines(check.log) == "", check.id
