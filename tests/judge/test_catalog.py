"""Loading checks by path: the built-in folder, a site's own, and files that are no checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from distdoctor.judge.catalog import BadCheck, built_in_folder, load, load_file
from distdoctor.model.stages import position

ROOT = Path(__file__).resolve().parents[2]
PAGE = '''"""A site's own failure.

What you see
------------
It.

Why it happens
--------------
So.

Fix
---
Do.
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
    assert [c.id for c in checks] == sorted((c.id for c in checks), key=lambda i: (position(i.partition("/")[0]), i))
    assert len(checks) > 30
    assert "gloo/loopback-address" in {c.id for c in checks}


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
        (PAGE.replace("Fix\n---", "Remedy\n------") + CODE, "lacks the section 'Fix'"),
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
