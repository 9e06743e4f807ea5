"""The torch that is tested is the one that the job imports: from the same place, in the same order, and it fails alike.

What is true is what plain Python makes of ``import torch`` in the same folder with the same variables.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.namespaces import ROOT
from tests.helpers.runs import environment

HARMLESS = ("random/notes.txt", "torch/model.pt", "utils.py", "site.py")
FURTHER = pytest.mark.scoreboard
JOB = "import torch, torch.distributed as dist\nprint(torch.__file__, dist.is_available())\n"
WRAPPER = """
import sys, threading, time
print("a torch that talks", flush=True)
def beat():
    while True:
        time.sleep(0.001)
threading.Thread(target=beat, daemon=True).start()
sys.path.remove({folder!r})
del sys.modules["torch"]
import torch
"""
"""A torch that prints, starts a thread, and then makes way for the real one."""


def check(folder: Path, *flags: str, before: str = "", **variables: str) -> tuple[int, dict[str, Any]]:
    """``check --json`` of one rank in that folder, its shell having run ``before``."""
    command = [sys.executable, "-m", "distdoctor", "check", "--json", "--nproc-per-node", "1", *flags]
    done = subprocess.run(
        ["sh", "-c", f'{before}\nexec "$@"', "sh", *command],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert "Traceback" not in done.stderr and "please report" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


def job_runs(folder: Path, before: str = "", **variables: str) -> bool:
    """Return whether plain Python imports torch in a script that lies in that folder."""
    script = folder / "train_job.py"
    script.write_text(JOB)
    done = subprocess.run(
        ["sh", "-c", f'{before}\nexec "$@"', "sh", sys.executable, str(script)],
        cwd=folder,
        env={**environment(**variables), "PYTHONPATH": variables.get("PYTHONPATH", "")},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    return done.returncode == 0 and done.stdout.rstrip().endswith("True")


def finding(report: dict[str, Any]) -> dict[str, Any]:
    """The only root of the report."""
    (root,) = (f for f in report["findings"] if f["because_of"] is None and f["severity"] == "fail")
    return dict(root)


def apply(report: dict[str, Any], folder: Path) -> dict[str, str]:
    """Do what the first option says, and give the variables that it sets."""
    env: dict[str, str] = {}
    for fix in (fix for fix in finding(report)["fixes"] if fix["option"] == 1):
        for command in fix["commands"]:
            subprocess.run(shlex.split(command), cwd=folder, check=True)
        env |= fix["env"]
    return env


def write(folder: Path, name: str, text: str = "mine = 1\n") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "name",
    [
        *("random.py", "torch.py"),
        *(
            pytest.param(name, marks=FURTHER)
            for name in ("queue/__init__.py", "json.py", "numpy.py", "torch/__init__.py")
        ),
    ],
)
def test_a_file_in_the_working_folder_that_hides_a_module(name: str, tmp_path: Path) -> None:
    file = write(tmp_path, name)
    shown = str(file.parent if name.endswith("__init__.py") else file)
    assert not job_runs(tmp_path)
    status, report = check(tmp_path)
    root = finding(report)
    assert (status, root["id"]) == (1, "environment/torch-shadowed")
    assert shown in root["summary"]
    assert not any("pip install" in command for fix in root["fixes"] for command in fix["commands"])
    apply(report, tmp_path)
    assert not Path(shown).exists() and job_runs(tmp_path)
    if name == "random.py":
        status, report = check(tmp_path)
        assert (status, report["torch"] is not None) == (0, True)


def test_a_torch_that_fails_before_it_has_imported_anything(tmp_path: Path) -> None:
    """As the folder of PyTorch's source does, whose first import is of what is not built there."""
    write(tmp_path, "torch/__init__.py", "from torch._C import *\n")
    assert not job_runs(tmp_path)
    status, report = check(tmp_path)
    assert (status, finding(report)["id"]) == (1, "environment/torch-shadowed")
    assert f"{tmp_path}/torch" in finding(report)["summary"]


@pytest.mark.parametrize("name", ["torch/__init__.py", pytest.param("random.py", marks=FURTHER)])
def test_a_file_on_pythonpath_that_hides_a_module(name: str, tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    here.mkdir()
    write(there, name, "raise ImportError('libfoo.so.1: cannot open shared object file: No such file or directory')\n")
    variables = {"PYTHONPATH": f"{there}:{ROOT}"}
    assert not job_runs(here, **variables)
    status, report = check(here, **variables)
    assert (status, finding(report)["id"]) == (1, "environment/torch-shadowed")
    assert str(there) in finding(report)["summary"]
    env = apply(report, here)
    assert job_runs(here, **{**variables, **env})
    assert check(here, **{**variables, **env})[0] == 0


@pytest.mark.parametrize("harmless", [HARMLESS, *(pytest.param((name,), marks=FURTHER) for name in HARMLESS)])
def test_what_hides_nothing_is_no_finding(harmless: tuple[str, ...], tmp_path: Path) -> None:
    """A folder without __init__.py is imported by nobody while there is the real one."""
    for name in harmless:
        write(tmp_path, name)
    assert job_runs(tmp_path)
    status, report = check(tmp_path)
    assert (status, report["verdict"] in ("pass", "warn")) == (0, True), report["findings"]


def test_the_torch_of_pythonpath_is_the_one_that_is_tested(tmp_path: Path) -> None:
    """As on sites that give each build of torch a module of its own."""
    import importlib.util

    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    (tmp_path / "torch").symlink_to(Path(spec.origin).parent)
    status, report = check(ROOT, PYTHONPATH=f"{tmp_path}:{ROOT}")
    (details,) = report["details"]["nodes"].values()
    assert (status, details["torch_path"]) == (0, str(tmp_path / "torch"))


def test_a_torch_that_talks_and_starts_threads(tmp_path: Path) -> None:
    write(tmp_path, "torch/__init__.py", WRAPPER.format(folder=str(tmp_path)))
    variables = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    assert job_runs(tmp_path / "torch", **variables)
    status, report = check(ROOT, "--nproc-per-node", "4", **variables)
    assert (status, report["verdict"] in ("pass", "warn")) == (0, True), report["findings"]


def test_a_folder_whose_name_is_no_utf_8(tmp_path: Path) -> None:
    """The answer of the process that imports torch can be read all the same; once, the wait for it never ended."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/job\xff"))
    folder.mkdir()
    write(folder, "random.py")
    status, report = check(folder)
    assert (status, finding(report)["id"]) == (1, "environment/torch-shadowed")
    assert "job\\xff/random.py" in finding(report)["summary"]


@pytest.mark.parametrize("kind", ["-P", pytest.param("PYTHONSAFEPATH", marks=FURTHER)])
@pytest.mark.skipif(sys.version_info < (3, 11), reason="new in Python 3.11")
def test_without_the_working_folder_on_the_path_its_files_hide_nothing(kind: str, tmp_path: Path) -> None:
    write(tmp_path, "random.py")
    flags, variables = (["-P"], {}) if kind == "-P" else ([], {"PYTHONSAFEPATH": "1"})
    done = subprocess.run(
        [sys.executable, *flags, "-m", "distdoctor", "check", "--json", "--nproc-per-node", "1"],
        cwd=tmp_path,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def limited(folder: Path) -> dict[str, str]:
    return {"before": "ulimit -S -v 500000"}


def gone(folder: Path) -> dict[str, str]:
    return {"before": f"mkdir {folder}/gone; cd {folder}/gone; rmdir {folder}/gone"}


def killed(folder: Path) -> dict[str, str]:
    """As the kernel does for want of memory."""
    write(folder, "hook/sitecustomize.py", HOOK.format(code="os.kill(os.getpid(), 9)"))
    return {"PYTHONPATH": f"{folder}/hook:{ROOT}"}


def no_library(folder: Path) -> dict[str, str]:
    text = "libcudart.so.12: cannot open shared object file: No such file or directory"
    write(folder, "hook/sitecustomize.py", HOOK.format(code=f"raise ImportError({text!r})"))
    return {"PYTHONPATH": f"{folder}/hook:{ROOT}"}


def no_dependency(folder: Path) -> dict[str, str]:
    code = "raise ModuleNotFoundError(\"No module named 'sympy'\", name='sympy')"
    write(folder, "hook/sitecustomize.py", HOOK.format(code=code))
    return {"PYTHONPATH": f"{folder}/hook:{ROOT}"}


HOOK = """
import sys
class Hook:
    def find_spec(self, name, path=None, target=None):
        if name == "torch._C":
            import os
            {code}
sys.meta_path.insert(0, Hook())
"""
"""Where torch loads its C++ part, something happens."""


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (limited, "memory"),
        (gone, "folder has been deleted"),
        (killed, "signal 9"),
        (no_library, "a required library"),
        (no_dependency, "package"),
    ],
)
def test_what_keeps_an_installed_torch_from_being_imported(
    fault: Callable[[Path], dict[str, str]], told: str, tmp_path: Path
) -> None:
    given = fault(tmp_path)
    assert not job_runs(tmp_path, **given)
    status, report = check(tmp_path, **given)
    root = finding(report)
    assert (status, root["id"]) == (1, "environment/torch-broken")
    assert told in root["summary"], root
    said = json.dumps(report)
    assert "has no address" not in said
    assert not any("install torch" in fix["text"].lower() + " ".join(fix["commands"]) for fix in root["fixes"])


def test_an_interpreter_without_torch(tmp_path: Path) -> None:
    """Another environment than the job's, as pipx makes one. What distdoctor needs is there, torch is not."""
    site = Path(os.__file__).parent
    packages = [Path(entry) for entry in sys.path if entry.endswith("site-packages")]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    (target,) = (tmp_path / "env").glob("lib/python*/site-packages")
    for package in packages:
        for entry in package.iterdir():
            if (
                not entry.name.startswith(("torch", "distdoctor", "_distdoctor", "functorch"))
                and entry.suffix != ".pth"
            ):
                (target / entry.name).symlink_to(entry)
    python = tmp_path / "env" / "bin" / "python"
    assert site.exists()
    done = subprocess.run(
        [str(python), "-m", "distdoctor", "check", "--json"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    root = finding(json.loads(done.stdout))
    assert (done.returncode, root["id"]) == (1, "environment/torch-missing")
    assert str(python) in root["summary"]
    assert [fix["commands"] for fix in root["fixes"]] == [[], [f"{python} -m pip install torch"]]
