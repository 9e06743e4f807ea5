"""However a command ends, it says so: one clear line, the right status, one JSON document where that is asked for."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distdoctor import __version__
from distdoctor.model.facts import FactsFile, encode
from tests.facts_builder import healthy
from tests.helpers.commands import doctor, environment

SECONDS = 60


def started(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "distdoctor", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        **options,
    )


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """A shell line in which ``$D`` is the command."""
    command = f"D='{sys.executable} -m distdoctor'; {line}"
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment(), timeout=SECONDS, check=False
    )


def one_document(text: str) -> Any:
    """The only document in ``text``, with the fields that every document has."""
    document = json.loads(text)
    assert document["schema_version"] == 1 and {"verdict", "findings", "notes", "stages", "plan"} <= set(document)
    return document


@pytest.fixture
def well(tmp_path: Path) -> Path:
    path = tmp_path / "well.json"
    path.write_bytes(encode(FactsFile(healthy(2), __version__)))
    return path


def site(folder: Path, body: str, top: str = "") -> Path:
    """A folder with one check of a site; ``body`` is its judge()."""
    (folder / "checks/host").mkdir(parents=True)
    (folder / "checks/host/odd.py").write_text(
        '"""Odd.\n\nWhat you see\n------------\nx\n\nWhy it happens\n--------------\nx\n\nFix\n---\nx\n"""\n'
        f"import sys, time\nfrom distdoctor.check_api import Finding\nSEVERITY = 'warn'\n{top}\n"
        f"def judge(cluster):\n    {body}\n    yield\n"
    )
    return folder / "checks"


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
    """Whether the process has installed its first handlers: it catches a signal that Python itself does not."""
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


class TestWriting:
    @pytest.mark.parametrize("arguments", ["diagnose {} --json", "diagnose {}", "list", "--help", "check --help"])
    def test_a_full_disk_is_no_success(self, well: Path, arguments: str) -> None:
        done = shell(f"$D {arguments.format(well)} >/dev/full")
        assert (done.returncode, done.stderr.count("\n")) == (3, 1)
        assert "cannot write to stdout: No space left on device" in done.stderr

    def test_findings_stay_findings(self, tmp_path: Path) -> None:
        done = shell("$D check --until environment --nnodes two >/dev/full")
        assert done.returncode == 2

    def test_half_a_document(self, well: Path, tmp_path: Path) -> None:
        """The disk becomes full in the middle of it."""
        done = subprocess.run(
            [sys.executable, "-m", "distdoctor", "diagnose", str(well), "--json"],
            stdout=(tmp_path / "out.json").open("w"),
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
            check=False,
        )
        assert done.returncode == 3
        assert "cannot write to stdout: File too large; what is there is not whole" in done.stderr

    def test_a_reader_that_leaves_does_not_change_the_verdict(self, well: Path) -> None:
        done = shell(f"$D diagnose {well} --json | true; exit ${{PIPESTATUS[0]}}")
        assert (done.returncode, done.stderr) == (0, "")

    def test_facts_that_cannot_be_saved_are_no_success(self, tmp_path: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "distdoctor", "check", "--until", "host", "--json", "--save", str(tmp_path)],
            capture_output=True,
            text=True,
            env=environment(),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
            check=False,
        )
        document = one_document(done.stdout)
        assert (done.returncode, document["verdict"]) == (3, "pass")
        assert document["notes"] == ["the facts could not be saved: [Errno 27] File too large"]
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize("make", [lambda p: p.symlink_to("/dev/null"), lambda p: p.write_text("my notes")])
    def test_what_is_no_place_for_facts_is_a_bad_command_line(
        self, tmp_path: Path, make: Callable[[Path], Any]
    ) -> None:
        make(tmp_path / "x.json")
        done = doctor("check", "--until", "host", "--save", str(tmp_path / "x.json"))
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert done.stderr.startswith(f"distdoctor: --save {tmp_path}/x.json: it is a ")


class TestSitesChecks:
    @pytest.mark.parametrize(
        ("body", "says"),
        [
            ("sys.exit(0)", "SystemExit: 0"),
            ("raise KeyError(3)", "KeyError: 3"),
            ("raise BaseException('x')", "BaseException: x"),
            ("yield 3", "judge() yields a int, not a Finding"),
            ("yield Finding(summary='x', nodes='host0')", "Expected `array`"),
            ("yield Finding(summary='x', severity='grave')", "Invalid enum value"),
        ],
    )
    def test_one_that_breaks_is_a_note_and_no_pass(self, well: Path, tmp_path: Path, body: str, says: str) -> None:
        folder = site(tmp_path, body)
        done = doctor("diagnose", str(well), "--json", "--checks", str(folder))
        document = one_document(done.stdout)
        assert (done.returncode, document["verdict"]) == (3, "incomplete")
        assert len(document["notes"]) == 1 and says in document["notes"][0]

    def test_what_one_prints_does_not_get_into_the_document(self, well: Path, tmp_path: Path) -> None:
        folder = site(tmp_path, "print('here'); return", top="print('there')")
        done = doctor("diagnose", str(well), "--json", "--checks", str(folder))
        assert (done.returncode, done.stderr) == (0, "there\nhere\n")
        one_document(done.stdout)

    @pytest.mark.parametrize(
        "body", ["time.sleep(3600)", pytest.param("while True: pass", marks=pytest.mark.scoreboard)]
    )
    def test_one_that_never_ends(self, well: Path, tmp_path: Path, body: str) -> None:
        folder, began = site(tmp_path, body), time.monotonic()
        done = doctor("diagnose", str(well), "--json", "--checks", str(folder))
        assert done.returncode == 3
        assert "host/odd: it did not end within 5 s" in one_document(done.stdout)["notes"][0]
        assert time.monotonic() - began < 15

    def test_one_that_never_ends_is_not_run_again(self, tmp_path: Path) -> None:
        """A run judges several times, and has a deadline."""
        folder, began = site(tmp_path, "while True: pass"), time.monotonic()
        done = doctor("check", "--until", "network", "--json", "--checks", str(folder), "--wait", "9", "--timeout", "9")
        assert (done.returncode, one_document(done.stdout)["verdict"]) == (3, "incomplete")
        assert time.monotonic() - began < 9 + 9 + 5

    def test_one_that_cannot_be_stopped_meets_the_deadline_of_the_run(self, tmp_path: Path) -> None:
        block = "import signal; signal.signal(signal.SIGALRM, signal.SIG_IGN)"
        folder, began = site(tmp_path, f"{block}\n    while True: pass"), time.monotonic()
        done = doctor("check", "--until", "host", "--json", "--checks", str(folder), "--wait", "1", "--timeout", "1")
        document = one_document(done.stdout)
        assert (done.returncode, document["verdict"]) == (3, "incomplete")
        assert "not finished within --wait and --timeout" in document["notes"][0]
        assert [(s["stage"], s["status"]) for s in document["stages"]] == [("environment", "pass"), ("host", "pass")]
        assert "could not finish within --wait + --timeout" in done.stderr
        assert time.monotonic() - began < 1 + 1 + 5 + 3

    @pytest.mark.parametrize(
        "top",
        [
            "sys.exit(0)",
            "raise BaseException",
            "while True: pass",
            "import nowhere",
            "x =",
            "FOLLOWS = 3",
            "\0",
            "\udcff",
        ],
    )
    def test_one_that_cannot_be_loaded(self, well: Path, tmp_path: Path, top: str) -> None:
        folder = site(tmp_path, "return")
        path = folder / "host/odd.py"
        path.write_bytes(path.read_bytes() + top.encode(errors="surrogateescape") + b"\n")
        done = doctor("diagnose", str(well), "--json", "--checks", str(folder))
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert f"{path}: " in one_document(done.stdout)["notes"][0]

    def test_folders_that_are_none(self, well: Path, tmp_path: Path) -> None:
        for folder in ("/nowhere", str(well), "/dev/null"):
            done = doctor("diagnose", str(well), "--checks", folder)
            assert (done.returncode, done.stderr) == (2, f"distdoctor: {folder} is not a folder of checks\n")

    def test_a_pipe_for_a_check_is_not_waited_for(self, well: Path, tmp_path: Path) -> None:
        (tmp_path / "checks/host").mkdir(parents=True)
        os.mkfifo(tmp_path / "checks/host/odd.py")
        done = doctor("diagnose", str(well), "--checks", str(tmp_path / "checks"))
        assert done.returncode == 2 and "did not end within 5 s" in done.stderr


class TestLimits:
    @pytest.mark.parametrize("files", [8, 16, *(pytest.param(n, marks=pytest.mark.scoreboard) for n in (7, 10, 12))])
    def test_too_few_open_files(self, files: int) -> None:
        done = shell(f"ulimit -n {files}; $D check --json --wait 5 --timeout 10")
        assert "Traceback" not in done.stderr
        document = one_document(done.stdout)
        assert (done.returncode, document["verdict"]) in ((3, "incomplete"), (1, "fail")), done.stderr
        if files <= 8:
            assert f"ulimit -n is {files}" in document["notes"][0] and done.stderr.count("\n") == 1

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


class TestSecretsAndBytes:
    def test_a_healthy_run_with_variables_that_are_no_utf8(self, tmp_path: Path) -> None:
        env = {**environment(), "GLOO_X": "\udcff", "LOGNAME": "m\udcfe", "GLOO_SOCKET_IFNAME": "l\udcff"}
        command = [sys.executable, "-m", "distdoctor", "check", "--until", "network", "--json", "--rdzv-id", "\udcfd"]
        done = subprocess.run(
            [*command, "--save", str(tmp_path)], capture_output=True, text=True, env=env, timeout=SECONDS, check=False
        )
        document = one_document(done.stdout)
        assert (done.returncode, document["verdict"]) == (1, "fail"), done.stderr
        assert [finding["id"] for finding in document["findings"]] == ["gloo/interface-not-found"]
        (path,) = tmp_path.iterdir()
        facts = json.loads(path.read_text())["facts"][0]
        assert (facts["identity"]["user"], facts["plan"]["run_id"]) == ("m\\xfe", "\\xfd")
        assert facts["variables"]["GLOO_SOCKET_IFNAME"] == "l\\xff"

    def test_no_secret_is_told(self, tmp_path: Path) -> None:
        secret = "s3cr3t"
        names = ("NCCL_SITE_KEY", "GLOO_TOKEN", "TORCHELASTIC_PASSWORD", "TORCH_NCCL_X", "WANDB_API_KEY")
        env = {**environment(), **dict.fromkeys(names, secret), "MASTER_ADDR": f"me:{secret}@host"}
        command = [sys.executable, "-m", "distdoctor", "check", "--until", "network", "--nnodes", "2", "-v"]
        done = subprocess.run(
            [*command, "--wait", "1", "--save", str(tmp_path)],
            capture_output=True,
            text=True,
            env=env,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode in (1, 3) and "***@host" in done.stdout
        saved = "".join(path.read_text() for path in tmp_path.iterdir())
        assert saved and secret not in done.stdout + done.stderr + saved
        refused = doctor("check", "--master-addr", f"me:{secret}@host", "--nnodes", "2")
        assert refused.returncode == 2 and secret not in refused.stderr
