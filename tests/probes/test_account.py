"""Tests of who the job runs as: the user's entry, name and home, and what logind would take away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from distdoctor.probes.host import identity
from tests.helpers.namespaces import ROOT, lines_of

_SHOW = """
import json, os
from dataclasses import asdict
from distdoctor.probes.host import identity
try:
    os.setgid(4711); os.setuid(4711)
except OSError as err:
    raise SystemExit(f"nobody else to be here: {err}")
print(json.dumps(asdict(identity.probe_account({"HOME": "/root"}))))
"""


def test_this_user_has_an_entry(tmp_path: Path) -> None:
    found = identity.probe_account({"HOME": str(tmp_path), "LOGNAME": "", "USER": "x"})
    assert (found.uid, found.named, found.home_error) == (os.getuid(), "USER", "")


@pytest.mark.skipif(os.getuid() != 0, reason="another user is needed")
def test_a_number_without_an_entry_and_a_home_that_is_not_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SHOW],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
    )
    if done.stderr.startswith("nobody else"):  # a user namespace that has one user
        pytest.skip(done.stderr.strip())
    found = json.loads(done.stdout)
    assert (found["uid"], found["known"], found["named"], found["home_error"]) == (4711, False, "", "EACCES")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, None),
        ({"etc/systemd/logind.conf": "[Login]\n#RemoveIPC=yes\n"}, True),
        ({"etc/systemd/logind.conf": "[Login]\n#RemoveIPC=no\n"}, False),
        ({"etc/systemd/logind.conf": "#RemoveIPC=yes\n", "etc/systemd/logind.conf.d/a.conf": "RemoveIPC = no"}, False),
        ({"etc/systemd/logind.conf": "RemoveIPC=no\n", "etc/systemd/logind.conf.d/a.conf": "RemoveIPC=1"}, True),
    ],
)
def test_the_setting_of_logind(tmp_path: Path, files: dict[str, str], said: bool | None) -> None:
    (tmp_path / "run/systemd/users").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert identity.probe_account({}, tmp_path).remove_ipc is said


def test_whether_systemd_runs_the_services(tmp_path: Path) -> None:
    assert identity.probe_account({}, tmp_path).systemd is False
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert identity.probe_account({}, tmp_path).systemd is True


def test_without_logind_nothing_is_taken_away(tmp_path: Path) -> None:
    (tmp_path / "etc/systemd").mkdir(parents=True)
    (tmp_path / "etc/systemd/logind.conf").write_text("RemoveIPC=yes\n")
    assert identity.probe_account({}, tmp_path).remove_ipc is None


_READ_ONLY = """
import subprocess
from distdoctor.probes.host import identity
before = identity.probe_account({}).withheld
subprocess.run("mount --bind /etc/hosts /etc/hosts && mount -o remount,bind,ro /etc/hosts", shell=True, check=True)
print(sorted({*identity.probe_account({}).withheld} - {*before}))
"""


def test_what_even_root_may_not_do_is_told(tmp_path: Path) -> None:
    """By the bounding set of capabilities, which a process never gets beyond, and by what is mounted read-only."""
    (tmp_path / "proc/self").mkdir(parents=True)
    status = tmp_path / "proc/self/status"
    for bounds, lacking in (("000001ffffffffff", ()), ("00000000a80425fb", ("CAP_NET_ADMIN", "CAP_SYS_ADMIN"))):
        status.write_text(f"Name:\tx\nCapEff:\t0000000000000000\nCapBnd:\t{bounds}\nCapAmb:\t0\n")
        assert identity.probe_account({}, tmp_path).withheld == lacking  # the latter are docker's own
    status.write_text("")
    assert identity.probe_account({}, tmp_path).withheld == ()


def test_a_file_that_is_mounted_read_only() -> None:
    assert lines_of(_READ_ONLY, "--mount", tools=("mount",)) == ["['/etc/hosts']"]


def test_programs_that_are_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(identity, "SYSTEM_FOLDERS", "")
    (tmp_path / "ip").write_text("")
    (tmp_path / "ip").chmod(0o755)
    assert identity.probe_account({"PATH": str(tmp_path)}).missing_programs == ("sysctl",)
