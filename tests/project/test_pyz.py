"""distdoctor.pyz: one file that runs where nothing of it is installed, and leaves one folder of its user's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.facts_builder import CHECKS
from tests.helpers.namespaces import ROOT
from tests.helpers.report_schema import report_in

pytest.importorskip("hatchling")
pytest.importorskip("packaging")
from scripts import pyz

PLAIN_PYTHON = [str(Path(sys.base_prefix) / "bin" / "python3"), "-S"]
"""This Python without any package that is installed for it."""
THIS = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("pyz") / "distdoctor.pyz"
    pyz.build(target, here=True)
    return target


def run(file: Path, home: Path, *words: str, status: int = 0) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home)}
    done = subprocess.run([*PLAIN_PYTHON, str(file), *words], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr if status else done.stdout


def test_it_does_what_the_installed_one_does(file: Path, tmp_path: Path) -> None:
    document = tmp_path / "report.json"
    told = run(file, tmp_path, "check", "--until", "environment", "-o", "text", "-o", f"json={document}")
    assert f"\n    {file} check\n" in told
    assert {check["id"] for check in report_in(document.read_bytes())["checks"]} <= {check.id for check in CHECKS}
    told = run(file, tmp_path, "diagnose", str(ROOT / "tests/recorded/cases/127-0-1-1-on-both.json.gz"), status=1)
    assert "gloo/loopback-address" in told
    cache = tmp_path / ".cache" / "distdoctor"
    (folder,) = cache.iterdir()
    assert cache.stat().st_mode & 0o777 == 0o700 and [one.name for one in folder.iterdir()] == ["site"]
    assert os.access(folder / "site/bin/py-spy", os.X_OK)  # hang reads stacks with it


def test_of_several_that_start_at_once_each_finds_it_whole(file: Path, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [*PLAIN_PYTHON, str(file), "--version"]
    started = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert {one.communicate()[0].partition(" ")[0] for one in started} == {"distdoctor"}
    assert len(list((tmp_path / ".cache" / "distdoctor").iterdir())) == 1


PRESSED = """
import os, runpy, signal, sys, zipfile
whole = zipfile.ZipFile.extractall
def extractall(self, path, members):
    whole(self, path, members[:3])
    os.kill(os.getpid(), int(sys.argv.pop()))
zipfile.ZipFile.extractall = extractall
runpy.run_path(sys.argv[1])
"""
"""A signal comes while it is unpacked."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("writable", [True, False])
def test_a_signal_while_it_is_unpacked_leaves_nothing(
    file: Path, tmp_path: Path, number: signal.Signals, writable: bool
) -> None:
    cache = "" if writable else "/proc"  # where no folder can be made, it takes a temporary one
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "XDG_CACHE_HOME": cache}
    done = subprocess.run(
        [*PLAIN_PYTHON, "-c", PRESSED, str(file), str(int(number))],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "")
    assert [one for one in tmp_path.rglob("*") if one.name not in (".cache", "distdoctor")] == []


def test_a_folder_that_others_may_write_to_is_not_trusted_and_nothing_is_left(file: Path, tmp_path: Path) -> None:
    cache = tmp_path / ".cache" / "distdoctor"
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    assert run(file, tmp_path, "--version").startswith("distdoctor ")
    assert not list(cache.iterdir()) and not list(tmp_path.glob("distdoctor-*"))


def test_a_python_that_it_was_not_made_for_is_told_so(tmp_path: Path) -> None:
    file = tmp_path / "other.pyz"
    pyz.write(file, {}, ["3.1", "3.2"])
    said = run(file, tmp_path, "--version", status=1)
    assert f"made for Python 3.1 3.2; this is {THIS}" in said
    assert file.stat().st_mode & 0o111 and shutil.which("env")


def test_it_is_the_same_file_for_the_same_contents(tmp_path: Path) -> None:
    for name in ("a", "b"):
        pyz.write(tmp_path / name, {"x.py": b"1", "y.py": b"2"}, [THIS])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_packages_that_differ_between_pythons_are_not_mixed() -> None:
    contents = {"a.py": b"1", "a.dist-info/WHEEL": b"cp310"}
    pyz.merge(contents, {"a.py": b"1", "b.cpython-311-x86_64-linux-gnu.so": b"2", "a.dist-info/WHEEL": b"cp311"})
    assert set(contents) == {"a.py", "a.dist-info/WHEEL", "b.cpython-311-x86_64-linux-gnu.so"}
    with pytest.raises(ValueError, match=r"a\.py"):
        pyz.merge(contents, {"a.py": b"other"})
