"""The checks are found however distdoctor is installed: wheel, sdist, editable install, bare checkout."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.facts_builder import CHECKS

ROOT = Path(__file__).resolve().parents[2]
CHECK_FILES = {path.relative_to(ROOT).as_posix() for path in (ROOT / "checks").glob("*/*.py")}

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("hatchling") is None, reason="hatchling is not installed"),
    pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="pip is not installed"),
]


def run(*arguments: str, cwd: Path, **variables: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PET_"))}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env={**env, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def listed(cwd: Path, path: Path) -> set[str]:
    return set(
        re.findall(r"^  (\S+/\S+)", run("-m", "distdoctor", "list", cwd=cwd, PYTHONPATH=str(path)), re.MULTILINE)
    )


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sdist")
    run("-m", "hatchling", "build", "-t", "sdist", "-d", str(out), cwd=ROOT)
    return next(out.glob("*.tar.gz"))


def build_wheel(source: Path, out: Path) -> Path:
    run("-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(out), str(source), cwd=out)
    return next(out.glob("*.whl"))


PACKAGE = {path.relative_to(ROOT).as_posix() for path in (ROOT / "distdoctor").rglob("*.py")}


def contents(wheel: Path) -> set[str]:
    """Return what a wheel holds beside its own description."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


def test_wheel(wheel: Path, tmp_path: Path) -> None:
    """The package, the checks inside it, and nothing else: no tests, no compiled files."""
    assert {name for name in contents(wheel) if name.endswith(".py")} == PACKAGE | {
        f"distdoctor/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "checks").rglob("*.py")
    }
    beside = {name.partition(".data/data/")[2] for name in contents(wheel) if not name.startswith("distdoctor/")}
    assert beside == {path.relative_to(ROOT).as_posix() for path in (ROOT / "share").rglob("*") if path.is_file()}
    assert not [name for name in contents(wheel) if name.endswith(".pyc")]
    assert {f"distdoctor/render/pages/report.{kind}" for kind in ("html.jinja", "css", "js")} <= contents(wheel)
    with zipfile.ZipFile(wheel) as archive:
        texts = {name.partition(".dist-info/")[2]: name for name in archive.namelist() if ".dist-info/" in name}
        needed = re.findall(r"^Requires-Dist: (.*)$", archive.read(texts["METADATA"]).decode(), re.MULTILINE)
        assert [one for one in needed if "torch" in one and "extra ==" not in one] == []
        assert re.search(
            rb"^distdoctor ?= ?distdoctor\.\w+:\w+$", archive.read(texts["entry_points.txt"]), re.MULTILINE
        )
        assert "licenses/LICENSE" in texts
        archive.extractall(tmp_path / "installed")
    assert listed(tmp_path, tmp_path / "installed") == {check.id for check in CHECKS}


@pytest.fixture(scope="module")
def wheel_of_sdist(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder)
    (source,) = folder.iterdir()
    return build_wheel(source, folder)


def test_sdist_and_the_wheel_made_of_it(sdist: Path, wheel_of_sdist: Path, wheel: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= CHECK_FILES
    assert {"tests/project/test_packaging.py", "README.md", "LICENSE", "pyproject.toml", "scripts/test"} <= names
    assert contents(wheel_of_sdist) == contents(wheel)


def test_installed_into_an_environment_of_its_own(wheel_of_sdist: Path, tmp_path: Path) -> None:
    """With nothing around it but what it says that it needs."""
    from scripts.pyz import installed

    venv = tmp_path / "venv"
    run("-m", "venv", "--without-pip", str(venv), cwd=tmp_path)
    pip, how = ("-m", "pip", "--python", str(venv / "bin/python")), ("-q", "--no-index", "--no-deps", "--no-compile")
    run(*pip, "install", *how, str(wheel_of_sdist), cwd=tmp_path)
    site = next((venv / "lib").glob("python3*/site-packages"))
    for name, data in installed().items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_bytes(data)
    for words in (["list"], ["check", "--until", "environment", "-o", "html"]):
        command = [str(venv / "bin/distdoctor"), *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr
    assert (venv / "share/man/man1/distdoctor.1").exists()
    assert (venv / "share/bash-completion/completions/distdoctor").exists()


def test_installing_it_brings_no_torch(tmp_path: Path) -> None:
    """``pip install .`` installs all that it needs, and no torch."""
    report = tmp_path / "report.json"
    run(
        "-m", "pip", "install", "-q", "--dry-run", "--no-index", "--no-build-isolation", "--force-reinstall",
        "--no-deps", "--report", str(report), str(ROOT), cwd=tmp_path,
    )  # fmt: skip
    (one,) = json.loads(report.read_text())["install"]
    assert one["metadata"]["name"] == "distdoctor"
    assert {re.split(r"[<>=! ;]", need)[0] for need in one["metadata"]["requires_dist"] if "extra ==" not in need} == {
        "typer", "rich", "psutil", "msgspec", "clustershell", "ahocorasick-rs", "jinja2", "py-spy",
    }  # fmt: skip


def test_bare_checkout(tmp_path: Path) -> None:
    assert listed(tmp_path, ROOT) == {check.id for check in CHECKS}


@pytest.mark.skipif(importlib.util.find_spec("editables") is None, reason="editables is not installed")
def test_editable_install(tmp_path: Path) -> None:
    run(
        "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(tmp_path / "site"),
        "-e", str(ROOT), cwd=tmp_path,
    )  # fmt: skip
    load = "from distdoctor.judge.catalog import load; print(len(load()))"
    code = f"import site, sys; site.addsitedir(sys.argv[1]); {load}"
    assert run("-c", code, str(tmp_path / "site"), cwd=tmp_path).strip() == str(len(CHECKS))


def test_torch_is_no_requirement() -> None:
    """Installing into an environment must not replace the torch that is to be checked."""
    text = (ROOT / "pyproject.toml").read_text()
    dependencies = text.partition("\ndependencies = [")[2].partition("\n]")[0]
    assert "typer" in dependencies
    assert "torch" not in dependencies


def test_what_the_guide_says_of_torch() -> None:
    guide, pinned = (ROOT / "docs/guides/getting-started.md").read_text(), (ROOT / "constraints.txt").read_text()
    tested = re.search(r"Tested with torch ([\d.]+)", guide)
    assert tested is not None
    assert f"torch=={tested[1]}\n" in pinned
