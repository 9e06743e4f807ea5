"""A real job on loopback, looked at while it hangs: who holds it and where; and it goes on as if nobody had looked."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from distdoctor.hang import proc, snapshot, stacks
from distdoctor.knowledge.live.job import PAUSE
from tests.helpers.commands import doctor, environment
from tests.helpers.report_schema import report_in

pytestmark = pytest.mark.timeout(900)  # with the start of the job, on a busy machine

SCRIPT = """
import os, sys, time, torch, torch.distributed as dist

dist.init_process_group("gloo")
value = torch.ones(1)
dist.all_reduce(value)
open(sys.argv[1] + f"/ready{dist.get_rank()}", "w").close()
if dist.get_rank() == 1:
    with open(sys.argv[1] + "/pipe") as pipe:  # nobody writes to it
        pipe.read()
dist.all_reduce(value)
assert value.item() == 9, value
time.sleep(1)  # the others may still read what this one has sent
"""
RANKS = 3
COMES_WITHIN = 600.0
TRACED = not stacks.why_not()


LAUNCHER = """
for rank in %s; do RANK=$rank "$@" & pids="$pids $!"; done
echo $pids
for pid in $pids; do wait $pid || exit 1; done
"""


@dataclass
class Job:
    """The ranks of the job, what started them, and the folder they share."""

    ranks: list[psutil.Process]
    launcher: subprocess.Popen[str]
    folder: Path


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """Three ranks, of which rank 1 reads a pipe while the others wait for it in an all_reduce."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("job")
    os.mkfifo(folder / "pipe")
    (folder / "train.py").write_text(SCRIPT)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = ["sh", "-c", LAUNCHER % " ".join(map(str, range(RANKS))), "sh", sys.executable, str(folder / "train.py")]
    launcher = subprocess.Popen(
        [*command, str(folder)],
        env=environment(**env, OMP_NUM_THREADS="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert launcher.stdout is not None
    ranks = [psutil.Process(int(pid)) for pid in launcher.stdout.readline().split()]
    try:
        deadline = time.monotonic() + COMES_WITHIN
        while not all((folder / f"ready{rank}").exists() for rank in range(RANKS)):
            assert time.monotonic() < deadline, "the job did not start"
            time.sleep(0.05)
        time.sleep(4.0)  # who stands still for less than some seconds may only pause
        yield Job(ranks, launcher, folder)
    finally:
        for rank in ranks:
            with contextlib.suppress(psutil.NoSuchProcess):
                rank.kill()
        launcher.communicate()


def look(job: Job, *flags: str) -> tuple[int, dict[str, Any]]:
    done = doctor("hang", "--pid", str(job.ranks[2].pid), "--json", *flags)
    assert done.stdout, done.stderr
    return done.returncode, report_in(done.stdout)


def test_the_rank_that_reads_a_pipe_is_named(job: Job) -> None:
    status, report = look(job)
    assert (status, report["verdict"]) == (1, "fail")
    (finding,) = report["findings"]
    assert finding["check"] == "process/waiting-in-user-code"
    assert finding["ranks"] == [1]
    assert finding["nodes"] == [socket.gethostname()]
    if TRACED:
        assert "train.py:9" in finding["summary"]
        assert any("in all_reduce at train.py:11" in line for line in finding["evidence"])
    groups = report["details"]["job"]["groups"]
    assert [group["ranks"] for group in groups] == [[1], [0, 2]]
    assert report["details"]["job"]["stores"][0]["joined"] == [0, 1, 2]


def test_without_stacks_it_is_the_same_rank(job: Job) -> None:
    status, report = look(job, "--stacks", "off")
    assert status == 1
    assert [(f["check"], f["ranks"]) for f in report["findings"]] == [("process/waiting-in-user-code", [1])]
    assert {group["place"] for group in report["details"]["job"]["groups"]} >= {"in a collective"}


def test_a_stopped_rank_is_named_first(job: Job) -> None:
    job.ranks[0].send_signal(signal.SIGSTOP)
    try:
        _, report = look(job)
    finally:
        job.ranks[0].send_signal(signal.SIGCONT)
    stopped = next(f for f in report["findings"] if f["check"] == "process/stopped")
    assert stopped["ranks"] == [0]
    assert stopped["fixes"][0]["commands"] == [f"kill -CONT {job.ranks[0].pid}"]


def test_saved_facts_give_the_same_verdict(job: Job, tmp_path: Path) -> None:
    file = tmp_path / "facts.json"
    _, live = look(job, "--save", str(file))
    done = doctor("diagnose", str(file), "--json")
    later = json.loads(done.stdout)
    assert done.returncode == 1
    assert [f["id"] for f in later["findings"]] == [f["id"] for f in live["findings"]]
    assert later["details"]["job"]["groups"] == live["details"]["job"]["groups"]


def test_what_is_watched_is_saved_at_each_look(job: Job, tmp_path: Path) -> None:
    file = tmp_path / "facts.json"
    command = [sys.executable, "-m", "distdoctor", "hang", "--pid", str(job.ranks[2].pid), "--stacks", "off"]
    with subprocess.Popen(
        [*command, "--watch", "0.2", "--save", str(file)], env=environment(), stdout=subprocess.PIPE, text=True
    ) as watching:
        try:
            first = wait_for_another(file, None)
            wait_for_another(file, first)
            watching.send_signal(signal.SIGINT)
            said, _ = watching.communicate(timeout=30)
        finally:
            watching.kill()
    assert watching.returncode == 128 + signal.SIGINT
    assert said.startswith("HANG  ")
    done = doctor("diagnose", str(file), "--json")
    assert [f["ranks"] for f in json.loads(done.stdout)["findings"]] == [[1]]


def wait_for_another(file: Path, before: int | None) -> int:
    """Return when the file was written, once that is not ``before``."""
    deadline = time.monotonic() + 60
    while not file.exists() or file.stat().st_mtime_ns == before:
        assert time.monotonic() < deadline, "nothing was saved"
        time.sleep(0.05)
    return file.stat().st_mtime_ns


def test_from_elsewhere_by_its_store_alone(job: Job) -> None:
    report = look(job)[1]
    port = report["plan"]["master_port"]
    done = doctor("hang", "--store", f"127.0.0.1:{port}", "--json")
    assert json.loads(done.stdout)["details"]["job"]["world_size"] == RANKS


def is_no_pause(job: Job) -> None:
    """Return once the rank that reads has stood still for longer than a pause: it runs for who reads stacks."""
    deadline = time.monotonic() + 60
    pid = job.ranks[1].pid
    # On a busy machine the time may be unknown for once; without a time of the last run it always is.
    while proc.last_run(pid) is not None and ((still := snapshot.idle_facts(pid)) is None or still < PAUSE):
        assert time.monotonic() < deadline, "it runs again and again"
        time.sleep(0.2)


def test_the_page_of_text_fits_a_screen_and_names_the_place_first(job: Job) -> None:
    is_no_pause(job)
    text = doctor("hang", "--pid", str(job.ranks[0].pid)).stdout
    assert len(text.splitlines()) < 40
    assert text.startswith("HANG  ")
    assert text.index("process/waiting-in-user-code") < text.index("\n  ranks 0,2")


def test_what_there_is_not_is_said_in_a_line(job: Job) -> None:
    with subprocess.Popen(["sleep", "100"]) as other:
        try:
            for flags, said in (
                (("--pid", str(other.pid)), "belongs to no job"),
                (("--run-id", "nobody's"), "no job of this host has it"),
                (("--store", "nowhere"), "is no HOST:PORT"),
            ):
                done = doctor("hang", *flags)
                assert (done.returncode, done.stdout) == (2, "")
                assert said in done.stderr and len(done.stderr.splitlines()) == 1
        finally:
            other.kill()


def test_who_has_started_it_is_asked_for_it_too(job: Job) -> None:
    is_no_pause(job)
    done = doctor("hang", "--pid", str(job.launcher.pid), "--stacks", "off")
    assert done.stdout.startswith("HANG  ")


def hides_processes() -> bool:
    """Return whether /proc is mounted so that users do not see each other's processes."""
    found = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    *_, options = (words[3] for words in found if words[1] == "/proc")  # the last one covers those before it
    return "hidepid=invisible" in options


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to look as somebody else")
def test_another_users_job_is_said_to_be_one(job: Job) -> None:
    """Without rights to see into it: in a line, with what to do."""
    program = (
        "import os, sys\n"
        "from distdoctor.hang.inspect import NoJob, Wanted, inspect\n"
        "from distdoctor.hang import jobs, stacks\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "for wanted in (Wanted(pid=int(sys.argv[1])), Wanted(run_id=None)):\n"
        "    try:\n"
        "        inspect(wanted)\n"
        "    except NoJob as err:\n"
        "        print(err)\n"
    )
    pid = str(job.ranks[2].pid)
    done = subprocess.run(
        [sys.executable, "-c", program, pid], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    first, second = done.stdout.splitlines()
    seen = hides_processes()
    assert ("hidepid" if seen else "belongs to another user") in first and "as root" in first
    # Of several jobs only some processes are listed.
    assert ("hidepid" if seen else "looks like a job") in second, done.stderr


def test_who_has_ended_is_nobody_elses(job: Job) -> None:
    """An agent that failed, and whose parent has taken no notice of it, was told as another user's, also to root."""
    code = "import ctypes; ctypes.CDLL(None).prctl(15, b'pt_elastic'); print(1, flush=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as ended:
        assert ended.stdout is not None and ended.stdout.read() == b"1\n"
        while Path(f"/proc/{ended.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.05)
        said = doctor("hang", "--pid", str(ended.pid), "--stacks", "off").stderr
        assert "it has ended" in said and "user" not in said
        is_no_pause(job)
        report = report_in(doctor("hang", "--pid", str(job.ranks[0].pid), "--stacks", "off", "--json").stdout)
        assert report["verdict"] == "fail" and not any("users" in note for note in report["notes"])


def test_z_it_goes_on_as_if_nobody_had_looked(job: Job) -> None:
    """Last: the job is completed, after all these looks, with the right result."""
    with open(job.folder / "pipe", "w") as pipe:
        pipe.write("go on")
    assert job.launcher.wait(60) == 0
