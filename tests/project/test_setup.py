"""The scripts' set-up: an environment that is half-made, interrupted, moved or of another Python is made anew."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.helpers.namespaces import ROOT

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")

PIP_AND_TORCH_LEFT_OUT = """
set -euo pipefail
. "$CHECKOUT/scripts/venv.sh"
install_torch() { :; }
pip_install() { echo installed >"$venv/packages"; }
make_venv
"""


QUICK_PYTHON = f"""#!/bin/sh
# This Python; its virtual environments get an empty pip, which is made sooner than a real one.
[ "$1 $2" = "-m venv" ] || exec "{sys.executable}" "$@"
shift 2
"{sys.executable}" -m venv --without-pip "$@" || exit
for dir; do :; done
cd "$dir"/lib/python3*/site-packages && mkdir pip && : >pip/__init__.py
"""


def bash(script: str, folder: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a script beside programs that must not be run for real: apt-get and sudo, which say that they were called."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("apt-get", "sudo"):
        (programs / name).write_text('#!/bin/sh\necho "${0##*/} $*" >>"$0.called"\nexit 1\n')
        (programs / name).chmod(0o755)
    (programs / "python3").write_text(QUICK_PYTHON)
    (programs / "python3").chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHON", "TORCH_INDEX") and not k.startswith("PIP_")}
    own = {"PATH": f"{programs}:{kept['PATH']}", "CHECKOUT": str(ROOT), "DISTDOCTOR_VENV": str(folder / "venv")}
    return subprocess.run(
        ["bash", "-c", script],
        env={**kept, **own, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )


def set_up(folder: Path, **env: str) -> str:
    """Make the environment, without what would be installed into it; it works afterwards. Gives what was said."""
    done = bash(PIP_AND_TORCH_LEFT_OUT, folder, env)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    subprocess.run([folder / "venv" / "bin" / "python", "-c", "import pip"], check=True)
    return done.stderr


def half_made(folder: Path) -> None:
    """Make the venv that `python -m venv` leaves if Debian's package for it is missing: a Python without pip."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)


def test_what_is_there_is_kept_and_what_cannot_be_used_is_made_anew(tmp_path: Path) -> None:
    half_made(tmp_path)
    (tmp_path / "venv" / ".made-for").write_text(f"{tmp_path}/venv\n")
    venv = tmp_path / "venv"
    assert f"making {venv} anew: it was left half-made (no pip)" in set_up(tmp_path)
    assert set_up(tmp_path) == ""
    (venv / "packages").unlink()
    (venv / ".installing").touch()
    assert f"making {venv} anew: its set-up was interrupted" in set_up(tmp_path)
    assert (venv / "packages").exists()
    moved = tmp_path / "moved"
    moved.mkdir()
    venv.rename(moved / "venv")
    assert f"making {moved / 'venv'} anew: it was made for {venv}, which is another folder" in set_up(moved)
    (moved / "venv" / "bin" / "python").unlink()
    (moved / "venv" / "bin" / "python").symlink_to("/nowhere/python3.9")
    assert "anew: its Python is gone" in set_up(moved)


def test_another_python_is_taken_when_it_is_asked_for(tmp_path: Path) -> None:
    set_up(tmp_path)
    other = tmp_path / "other-python"
    # The same Python, which says that it is another.
    answer = 'case "$2" in *version.split*) echo 3.99.0 /elsewhere; exit ;; esac'
    other.write_text(f'#!/bin/sh\n{answer}\nexec "{tmp_path}/programs/python3" "$@"\n')
    other.chmod(0o755)
    said = set_up(tmp_path, PYTHON=str(other))
    assert f"making {tmp_path / 'venv'} anew: it is of Python " in said and "PYTHON is 3.99.0 /elsewhere" in said


@pytest.mark.parametrize("before", [None, half_made])
def test_without_the_venv_module_it_is_said_what_to_install_and_nothing_is_left(tmp_path: Path, before: object) -> None:
    if callable(before):
        before(tmp_path)
        (tmp_path / "venv" / ".made-for").touch()
    lacking = tmp_path / "modules" / "ensurepip"
    lacking.mkdir(parents=True)
    (lacking / "__init__.py").write_text("raise ModuleNotFoundError\n")
    done = bash(PIP_AND_TORCH_LEFT_OUT, tmp_path, {"PYTHONPATH": str(lacking.parent)})
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(
        f"cannot make a virtual environment with pip. As root: apt-get install {package} "
        "(or name another Python with PYTHON=/path/to/python)"
    )
    assert (tmp_path / "venv").exists() is (before is not None)
    set_up(tmp_path)


def test_what_was_not_made_here_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "thesis.tex").touch()
    done = bash(PIP_AND_TORCH_LEFT_OUT, tmp_path)
    assert done.returncode == 1 and "it was not made here" in done.stderr
    assert (tmp_path / "venv" / "thesis.tex").exists()


def test_a_python_that_is_none_costs_nothing(tmp_path: Path) -> None:
    set_up(tmp_path)
    done = bash(PIP_AND_TORCH_LEFT_OUT, tmp_path, {"PYTHON": "/nowhere/python"})
    assert done.returncode == 1 and "PYTHON=/nowhere/python is no Python 3.10 or newer" in done.stderr
    assert set_up(tmp_path) == ""


def test_an_interrupted_installation_leaves_its_mark(tmp_path: Path) -> None:
    fails = '. "$CHECKOUT/scripts/venv.sh"; pip_install no-such-thing || echo failed'
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$*"\nexit "$STATUS"\n')
    python.chmod(0o755)
    assert bash(fails, tmp_path, {"STATUS": "1"}).stdout == "failed\n"
    assert (tmp_path / "venv" / ".installing").exists()
    assert bash(fails, tmp_path, {"STATUS": "0"}).stdout == ""
    assert not (tmp_path / "venv" / ".installing").exists()


# -- which build of torch ---------------------------------------------------------------------------------------------

PYTHON = """#!/bin/sh
# Stands for the environment's Python and its pip, which is not to ask any index here. Notes what it was asked.
echo "$*" >>"$LOG"
case "$*" in
    "-c import torch") exit 1 ;;
    *--no-index*) [ -n "$LOCAL" ] && echo '{"install": [{"download_info": {"url": "file:///wheels/'"$LOCAL"'"}}]}' ;;
    *"config list"*) echo "global.extra-index-url='https://more.example'"; [ -z "$OWN" ] || echo "x.index-url='$OWN'" ;;
    *"index versions"*)
        [ "$CPU" != hangs ] || sleep 60
        [ "$CPU" = yes ] && echo "Available versions: $VERSION+cpu, 2.0+cpu"
        ;;
    *"pip install"*) echo "a progress bar" ;;
    *) exit 64 ;;
esac
"""
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
PINNED = next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))


def torch_installed(
    folder: Path, driver: bool = False, wait: float = 20, env: Mapping[str, str] | None = None
) -> tuple[list[str], list[str]]:
    """Return what pip was asked to do, and what was said, where torch is to be installed."""
    python, log = folder / "venv" / "bin" / "python", folder / "log"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    script = (
        'set -euo pipefail\n. "$CHECKOUT/scripts/venv.sh"\n'
        f"nvidia_driver() {{ {'true' if driver else 'false'}; }}\nuname() {{ echo x86_64; }}\n"
        f'timeout() {{ shift; command timeout {wait} "$@"; }}\ninstall_torch'
    )
    answers = {"LOG": str(log), "LOCAL": "", "OWN": "", "CPU": "", "VERSION": PINNED.partition("==")[2]}
    done = bash(script, folder, {**answers, **(env or {})})
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    asked = [line for line in log.read_text().splitlines() if line.startswith("-m pip in") and "--dry-run" not in line]
    return asked, done.stderr.splitlines()


PLAIN = "-m pip install -c constraints.txt torch"
FROM_CPU_INDEX = f"-m pip install -c constraints.txt --index-url {CPU_INDEX} torch"
QUESTION = f"-m pip index versions torch --index-url {CPU_INDEX} --retries 0 --timeout 5"


def test_the_cpu_build_is_taken_where_there_is_no_driver_and_its_size_is_said_first(tmp_path: Path) -> None:
    asked, said = torch_installed(tmp_path, env={"CPU": "yes"})
    assert asked == [QUESTION, FROM_CPU_INDEX]
    assert "CPU build" in said[0] and "0.2 GB" in said[0] and said[1] == "a progress bar"


@pytest.mark.parametrize(("answer", "wait"), [("no", 20), ("hangs", 0.3)])
def test_pypis_build_where_the_cpu_index_is_not_to_be_had(tmp_path: Path, answer: str, wait: float) -> None:
    asked, said = torch_installed(tmp_path, wait=wait, env={"CPU": answer})
    assert asked == [QUESTION, PLAIN]
    assert "2.7 GB" in said[0] and "not to be had" in said[0] and said[1] == "a progress bar"


def test_pypis_build_where_there_is_a_driver(tmp_path: Path) -> None:
    asked, said = torch_installed(tmp_path, driver=True, env={"CPU": "yes"})
    assert asked == [PLAIN]
    assert "2.7 GB" in said[0] and said[1] == "a progress bar"


@pytest.mark.parametrize("driver", [True, False])
def test_a_wheel_on_this_machine_is_taken_and_no_index_asked(tmp_path: Path, driver: bool) -> None:
    wheel = f"torch-{PINNED.partition('==')[2]}+cpu-cp311-cp311-linux_x86_64.whl"
    asked, said = torch_installed(tmp_path, driver, env={"LOCAL": wheel, "CPU": "yes"})
    assert asked == ["-m pip install -c constraints.txt -q torch"]
    assert wheel in said[0]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"TORCH_INDEX": "https://mine.example/cu126"}, FROM_CPU_INDEX.replace(CPU_INDEX, "https://mine.example/cu126")),
        ({"TORCH_INDEX": ""}, PLAIN),
        ({"OWN": "https://mirror.example/simple"}, PLAIN),
        ({"PIP_INDEX_URL": "https://mirror.example/simple"}, PLAIN),
    ],
)  # fmt: skip
def test_what_someone_has_set_up_is_kept(tmp_path: Path, variables: dict[str, str], expected: str) -> None:
    asked, said = torch_installed(tmp_path, env={"CPU": "yes", **variables})
    assert asked == [expected]
    assert said[0].startswith(f"== installing torch {PINNED.partition('==')[2]}")


def test_a_torch_that_is_there_is_kept(tmp_path: Path) -> None:
    script = '. "$CHECKOUT/scripts/venv.sh"; install_torch'
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\ncase "$*" in "-c import sys, torch; "*) ;; *) touch "$0.asked" ;; esac\n')
    python.chmod(0o755)
    assert bash(script, tmp_path).returncode == 0
    assert not Path(f"{python}.asked").exists()


def test_to_work_on_it_the_pinned_torch_is_wanted_whichever_is_there(tmp_path: Path) -> None:
    """``scripts/dev`` installs it where the environment has another version; ``scripts/test`` takes what is there."""
    pinned = re.search(r"(?m)^torch==(.*)$", (ROOT / "constraints.txt").read_text())
    assert pinned is not None
    torch = tmp_path / "modules" / "torch.py"
    torch.parent.mkdir()
    script = f"""
set -euo pipefail
. "$CHECKOUT/scripts/venv.sh"
venv={shlex.quote(str(tmp_path))} && mkdir -p "$venv/bin" && ln -sf {shlex.quote(sys.executable)} "$venv/bin/python"
pip_install() {{ echo "pip_install $*"; }}
local_torch() {{ return 1; }}
TORCH_INDEX= install_torch
"""
    for version, asked, installed in [
        ("2.4.1", {}, False),
        ("2.4.1", {"PINNED_TORCH": "1"}, True),
        (f"{pinned[1]}+cpu", {"PINNED_TORCH": "1"}, False),
    ]:
        torch.write_text(f"__version__ = {version!r}\n")
        done = bash(script, tmp_path, {"PYTHONPATH": str(torch.parent), "PYTHONDONTWRITEBYTECODE": "1", **asked})
        assert done.returncode == 0, done.stderr
        assert ("pip_install" in done.stdout) is installed, (version, asked, done.stdout, done.stderr)


RUN_TESTS = 'bash "$CHECKOUT/scripts/test" '


def has_pytest(folder: Path) -> None:
    """An environment whose Python says what it is asked to run, and has pytest."""
    (folder / "venv/bin").mkdir(parents=True)
    (folder / "venv/.made-for").write_text(f"{folder}/venv\n")
    python = folder / "venv/bin/python"
    stands_in = """[ "$1 $2 $3" != "-m pytest --version" ] || exit 0
[ "$1 $2" != "-m pytest" ] || { echo "$*"; exit 5; }"""
    python.write_text(f'#!/bin/sh\n{stands_in}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)


def called(folder: Path) -> str:
    """Return what apt-get and sudo were asked to do."""
    return "".join(path.read_text() for path in sorted((folder / "programs").glob("*.called")))


def test_a_selection_of_tests_installs_nothing(tmp_path: Path) -> None:
    has_pytest(tmp_path)
    before = sorted(tmp_path.rglob("venv/*"))
    done = bash(RUN_TESTS + "tests/model -k x", tmp_path, {"PATH": f"{tmp_path}/programs:/usr/bin:/bin"})
    assert (done.returncode, done.stdout) == (5, "-m pytest tests/model -k x\n"), done.stderr
    assert called(tmp_path) == "" and sorted(tmp_path.rglob("venv/*")) == before


def test_the_launchers_are_installed_for_their_own_tests_alone(tmp_path: Path) -> None:
    has_pytest(tmp_path)
    lacks_them = 'PATH="${PATH%%:*}:$TOOLS"; '
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "dirname", "cat", "id", "env", "sh", "true", "grep"):
        (tools / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    done = bash(lacks_them + RUN_TESTS + "tests/launchers/test_site.py", tmp_path, {"TOOLS": str(tools)})
    assert (done.returncode, done.stdout) == (5, "-m pytest tests/launchers/test_site.py\n"), done.stderr
    if not Path("/run/systemd/system").is_dir():
        assert "openmpi-bin mpich" in called(tmp_path)
    assert "util-linux" not in done.stderr  # that is the lab's


def test_without_an_environment_a_selection_says_how_to_make_one(tmp_path: Path) -> None:
    done = bash(RUN_TESTS + "tests/model", tmp_path)
    assert (done.returncode, done.stdout, called(tmp_path)) == (2, "", "")
    assert done.stderr.endswith("Set it up: bash scripts/dev\n")
    assert not (tmp_path / "venv").exists()
    half_made(tmp_path)
    assert "left half-made" in bash(RUN_TESTS + "tests/model", tmp_path).stderr


@pytest.mark.parametrize("niceness", [0, 5])
def test_what_is_to_be_nice_is_nice_among_sessions_too(tmp_path: Path, niceness: int) -> None:
    """A kernel that shares processors out by session first counts nice within one session only."""
    own = "cut -d' ' -f2- /proc/self/autogroup 2>/dev/null || :; nice; ps -o sid= -p $$"
    run = f'. "$CHECKOUT/scripts/venv.sh"; can_be_apart || exit 77; run_apart {niceness} sh -c "$OWN"'
    done = bash(run, tmp_path, {"OWN": own})
    if done.returncode == 77:
        pytest.skip("no process namespaces here")
    *group, nice, session = done.stdout.split("\n")[:-1]
    *before, _, _ = bash('sh -c "$OWN"', tmp_path, {"OWN": own}).stdout.split("\n")[:-1]
    assert (int(nice), session.strip() == "1") == (min(19, os.nice(0) + niceness), niceness > 0), done
    if Path("/proc/self/autogroup").exists():
        assert group == ([f"nice {niceness}"] if niceness else before)


TRIES = """
set -euo pipefail
. "$CHECKOUT/scripts/venv.sh"
cd "$TESTS"
try() { "$PYTHON_HERE" -m pytest -q -o cache_dir="$PWD/cache" "$@" >/dev/null; }
try || :
again=0
SECOND=1 second_try "$PWD/cache" try --last-failed --last-failed-no-failures none || again=$?
say_second_tries
second_try "$PWD/none" true
exit "$again"
"""


def test_what_passes_only_on_the_second_try_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import os, pytest\n"
        "@pytest.mark.parametrize('value', ['a b', 'c'])\n"
        "def test_late(value): assert 'SECOND' in os.environ\n"
        "def test_wrong(): assert False\n"
        "def test_right(): pass\n"
    )
    done = bash(TRIES, tmp_path, {"TESTS": str(tmp_path), "PYTHON_HERE": sys.executable})
    assert done.returncode == 1, done.stderr
    names = ["test_it.py::test_late[a b]", "test_it.py::test_late[c]"]
    assert done.stderr.splitlines() == ["== passed only on the second try:", *(f"    {name}" for name in names)]
