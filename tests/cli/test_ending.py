"""However a command ends, it says so: one clear line, the right status, one JSON document where that is asked for."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

import pytest

from distdoctor import __version__
from distdoctor.cli import app, ending
from distdoctor.cli.ending import shortage
from distdoctor.interrupts import Interrupted
from distdoctor.judge.sandbox import time_limited
from distdoctor.model.facts import FactsFile, encode
from distdoctor.probes.host.process_room import CLONE3
from tests.cli.endings import SECONDS, one_document, shell, site, started
from tests.facts_builder import healthy
from tests.helpers.commands import doctor
from tests.helpers.namespaces import ENV
from tests.helpers.sandbox import forbid


class TestBadCommandLines:
    @pytest.mark.parametrize(
        "line",
        [
            "check --nnodes two --json",
            "check --json --no-such-flag",
            "check -o json --node-rank x",
            "check -ojson --until x",
            "check --output=json --master-addr",
            "chek --json",
            "check --json --checks /nowhere",
            "check --json --save /nowhere/x",
            "check --json --save=",
            "check --json --checks=",
            "check --json --baseline=",
            "diagnose --json /nowhere.json",
            "diagnose -qo json /dev/null",
            "diagnose --json",
        ],
    )
    def test_json_is_one_document_with_the_error_in_its_notes(self, line: str) -> None:
        done = doctor(*line.split())
        document = one_document(done.stdout)
        assert (done.returncode, document["verdict"]) == (2, "incomplete")
        assert done.stderr == f"distdoctor: {document['notes'][0]}\n"

    @pytest.mark.parametrize("line", ["list --json --checks /nowhere", "check --nnodes two"])
    def test_no_document_where_none_was_asked_for(self, line: str) -> None:
        done = doctor(*line.split())
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


class TestSignals:
    @pytest.mark.parametrize(
        ("number", "moment"),
        [
            pytest.param(number, moment, marks=[] if place == turn else [pytest.mark.scoreboard])
            for place, number in enumerate((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
            for turn, moment in enumerate((0.1, 0.25, 0.5))
        ],
    )
    def test_in_the_first_moments(self, number: int, moment: float) -> None:
        """Before the event loop has handlers of its own: during the imports, the plan, the start of the zygote."""
        began = time.monotonic()
        process = started("check", "--json", "--nproc-per-node", "1")
        wait_for_our_code(process)
        time.sleep(max(0.0, moment - (time.monotonic() - began)))
        process.send_signal(number)
        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 128 + number, err
        assert "Traceback" not in err
        document = one_document(out)
        assert document["verdict"] == "incomplete"
        assert any(signal.Signals(number).name in note for note in document["notes"])

    def test_at_once(self) -> None:
        process = started("check", "--json", "--nproc-per-node", "1")
        wait_for_our_code(process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, "Traceback" in err) == (130, False)
        assert one_document(out)["verdict"] == "incomplete"

    def test_diagnose(self, tmp_path: Path) -> None:
        folder = site(tmp_path, "time.sleep(60)")
        well = tmp_path / "well.json"
        well.write_bytes(encode(FactsFile(healthy(2), __version__)))
        process = started("diagnose", str(well), "--json", "--checks", str(folder))
        time.sleep(1.5)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 143, err
        assert "SIGTERM" in one_document(out)["notes"][0]

    @pytest.mark.parametrize("where", ["in an import of a check's", "in one of our own"])
    def test_one_that_comes_while_a_class_is_made(
        self, where: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """Python up to 3.11 makes another exception of it."""

        class Named:
            def __set_name__(self, *_told: object) -> None:
                raise Interrupted(signal.SIGTERM)

        def made(*_arguments: object) -> NoReturn:
            if where == "in one of our own":
                type("Made", (), {"one": Named()})
            with time_limited():
                type("Made", (), {"one": Named()})
            raise AssertionError

        monkeypatch.setattr(app, "parser_of", made)
        monkeypatch.setattr(ending, "begin", lambda: None)
        assert app.run(["list"]) == 143
        assert "interrupted by SIGTERM" in capfd.readouterr().err

    def test_what_nohup_ignores_stays_ignored(self) -> None:
        process = started("check", "--json", "--until", "network", preexec_fn=ignore_hang_up)
        wait_for_our_code(process, signal.SIGTERM)
        process.send_signal(signal.SIGHUP)
        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode in (0, 1), err  # 1: this machine may have a finding
        assert one_document(out)["verdict"] != "incomplete"

    @pytest.mark.parametrize("moments", [5, pytest.param(10, marks=pytest.mark.scoreboard)])
    def test_many_moments_leave_nothing_behind(self, moments: int) -> None:
        """So many moments of a run, each in a session of its own whose processes can be counted."""
        for step in range(moments):
            process = started("check", "--json", "--nproc-per-node", "2", start_new_session=True)
            wait_for_our_code(process)
            time.sleep(3.0 / moments * step)
            process.send_signal((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[step % 3])
            out, err = process.communicate(timeout=SECONDS)
            assert "Traceback" not in err
            one_document(out)
            assert process.returncode == 0 or process.returncode > 128
            assert members_of(process.pid) == []


def ignore_hang_up() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def wait_for_our_code(process: subprocess.Popen[str], caught: signal.Signals = signal.SIGHUP) -> None:
    """Until Python itself has started; what a signal does before is not for us to say."""
    while not is_our_code(process.pid, caught):
        assert process.poll() is None
        time.sleep(0.001)


def is_our_code(pid: int, number: signal.Signals) -> bool:
    """Return whether the process has installed its first handlers: it catches a signal that Python itself does not."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def members_of(session: int) -> list[int]:
    """The processes of a session that are still there."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except (OSError, IndexError):
            continue
        if entry.name.isdigit() and int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.name))
    return found


class TestLimits:
    @pytest.mark.parametrize("files", [8, 16, *(pytest.param(n, marks=pytest.mark.scoreboard) for n in (7, 10, 12))])
    def test_too_few_open_files(self, files: int) -> None:
        done = shell(f"ulimit -n {files}; $D check --json --wait 5 --timeout 10")
        assert "Traceback" not in done.stderr
        document = one_document(done.stdout)
        assert (done.returncode, document["verdict"]) in ((3, "incomplete"), (1, "fail")), done.stderr
        if files <= 8:
            assert f"ulimit -n is {files}" in document["notes"][0] and done.stderr.count("\n") == 1

    def test_no_memory_for_a_thread(self) -> None:
        """A probe that nobody waits for any more prints nothing on stderr."""
        done = shell("ulimit -v 60000; $D check --until network --json --wait 5 --timeout 10")
        assert "Traceback" not in done.stderr, done.stderr
        document = one_document(done.stdout)
        assert (done.returncode, document["verdict"]) in ((3, "incomplete"), (1, "fail"), (0, "pass")), done.stderr

    def test_no_further_process(self) -> None:
        if os.geteuid() != 0:
            pytest.skip("needs root, to become a user that has no other process")
        if shutil.which("setpriv") is None:
            pytest.skip("not installed: setpriv")
        read_all = "--inh-caps +dac_read_search --ambient-caps +dac_read_search"  # this Python may be in /root
        become = f"setpriv --reuid 54321 --clear-groups {read_all}"
        done = shell(f'exec {become} bash -c "ulimit -u 1; exec $D check --json --wait 5 --timeout 10"')
        if "setpriv" in done.stderr:
            pytest.skip(f"no other user here: {done.stderr}")
        document = one_document(done.stdout)
        assert (done.returncode, document["verdict"]) == (3, "incomplete")
        assert "ulimit -u is 1" in document["notes"][0], done.stderr


def test_without_dev_null() -> None:
    told = shortage(FileNotFoundError(2, "No such file or directory", "/dev/null"))
    assert told is not None and "mknod -m 666 /dev/null c 1 3" in told
    told = shortage(PermissionError(13, "Permission denied", "/dev/null"))
    assert told is not None and "chmod 666 /dev/null" in told
    assert shortage(PermissionError(13, "Permission denied", "/etc/shadow")) is None


def test_a_package_that_is_hidden_is_no_fault_to_be_reported() -> None:
    """An old typing_extensions in ~/.local breaks torch and this alike."""
    text = "cannot import name 'Sentinel' from 'typing_extensions' (/home/ann/.local/lib/typing_extensions.py)"
    told = shortage(ImportError(text, name="typing_extensions"))
    assert told is not None and text in told and "PYTHONNOUSERSITE=1" in told
    assert shortage(ImportError("cannot import name 'x'", name="distdoctor.model")) is None


STARTED = """
import threading
from distdoctor.cli import app, ending
from distdoctor.cli.ending import shortage
from distdoctor.interrupts import Interrupted
from distdoctor.judge.sandbox import time_limited
try:
    threading.Thread(target=print).start()
except RuntimeError as err:
    print(shortage(err))
"""


def test_threads_that_a_sandbox_forbids_are_no_limit_of_their_number() -> None:
    code = forbid(CLONE3) + STARTED
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=ENV, timeout=60, check=False
    )
    if done.stdout.strip() not in ("skip", ""):  # empty: a libc that starts threads without it
        assert "clone3() is forbidden" in done.stdout and "ulimit" not in done.stdout, done.stderr
    assert done.returncode == 0, done.stderr
