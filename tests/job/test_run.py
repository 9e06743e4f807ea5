"""``distdoctor run``: the job is as it would be without it, and what killed it is told."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from distdoctor.cli.app import run as in_this_process
from distdoctor.cli.output import Telling
from distdoctor.cli.run import Watcher, Watching
from distdoctor.hang.jobs import _doctors_command
from distdoctor.probes.host import processes
from tests.helpers.runs import environment
from tests.helpers.servers import unused_port

RUN = [sys.executable, "-m", "distdoctor", "run", "--preflight", "off", "--"]


def run(*words: str, options: tuple[str, ...] = (), **variables: str) -> subprocess.CompletedProcess[bytes]:
    command = [*RUN[:-1], *options, "--", *words]
    return subprocess.run(command, capture_output=True, check=False, timeout=120, env=environment(**variables))


def python(program: str) -> tuple[str, str, str]:
    return sys.executable, "-c", program


class Terminal:
    """A program at a terminal of its own, as a person starts it."""

    def __init__(self, *command: str, rows: int = 31, columns: int = 117) -> None:
        pid, self.number = pty.fork()
        if pid == 0:
            time.sleep(0.05)
            os.execvpe(command[0], command, environment(TERM="xterm", PYTHONUNBUFFERED="1"))
        self.pid = pid
        self.resize(rows, columns)
        self.seen = b""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.number, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, words: bytes, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while words not in self.seen:
            assert select.select([self.number], [], [], max(0.0, end - time.monotonic()))[0], self.seen
            try:
                data = os.read(self.number, 65536)
            except OSError:
                data = b""
            assert data, self.seen
            self.seen += data

    def status(self) -> int:
        self.until_closed()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def until_closed(self) -> None:
        try:
            while data := os.read(self.number, 65536):
                self.seen += data
        except OSError:
            pass


AT_TERMINAL = """
import os, signal, sys
interrupts = []
signal.signal(signal.SIGWINCH, lambda *_: print("size", *os.get_terminal_size(1), flush=True))
print([os.isatty(n) for n in (0, 1, 2)], *os.get_terminal_size(1), *os.get_terminal_size(2), flush=True)
print("\\x1b[31mred\\x1b[0m", end="\\r\\n")
print("typed", input())
try:
    while True:
        signal.pause()
except KeyboardInterrupt:
    interrupts.append(1)
try:
    import time; time.sleep(0.3)
except KeyboardInterrupt:
    interrupts.append(2)
print("interrupts", interrupts, flush=True)
sys.exit(9)
"""


def test_the_terminal_is_the_jobs() -> None:
    """Its descriptors are terminals of the same size, colours and line ends arrive as they are, what is typed too, a
    new size is seen, Ctrl-C comes once, and the exit status is its own."""
    terminal = Terminal(*RUN, *python(AT_TERMINAL))
    terminal.until(b"\x1b[31mred\x1b[0m\r\r\n")
    assert b"[True, True, True] 117 31 117 31\r\n" in terminal.seen
    os.write(terminal.number, b"word\n")
    terminal.until(b"typed word\r\n")
    terminal.resize(20, 60)
    terminal.until(b"size 60 20")
    os.write(terminal.number, b"\x03")
    terminal.until(b"interrupts")
    assert terminal.status() == 9
    assert b"interrupts [1]\r\n" in terminal.seen and b"distdoctor" not in terminal.seen


OUTPUT = """
import os, sys
block = bytes(range(256)) * 4096
os.write(2, b"first on stderr, ")
for _ in range(20):
    sys.stdout.buffer.write(block)
sys.stdout.buffer.write(b"no end of line")
sys.stdout.buffer.flush()
os.write(2, b"last on stderr")
sys.exit(int(sys.argv[1]))
"""


def test_every_byte_comes_out_where_it_was_written() -> None:
    done = run(*python(OUTPUT), "0")
    assert done.returncode == 0 and done.stderr == b"first on stderr, last on stderr"
    assert done.stdout == bytes(range(256)) * 4096 * 20 + b"no end of line"


FURTHER = [pytest.param(one, marks=pytest.mark.scoreboard) for one in ("exit 7", "kill -KILL $$", "/nowhere/program")]


@pytest.mark.parametrize("program", ["kill -TERM $$", *FURTHER])
def test_the_exit_status_is_the_jobs(program: str) -> None:
    plain = subprocess.run(["sh", "-c", program], capture_output=True, check=False)
    done = run("sh", "-c", program)
    assert done.returncode == plain.returncode
    assert done.stderr.startswith(plain.stderr) and done.stderr.count(b"its output shows no failure that is known") == 1


def test_what_cannot_be_started() -> None:
    assert run("/nowhere/program").returncode == 127
    assert run("/etc/passwd").returncode == 126


SIGNALLED = """
import os, signal, sys, time
got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append("usr1"))
signal.signal(signal.SIGTERM, lambda *_: got.append("term"))
print("ready", flush=True)
end = time.monotonic() + 20
while "term" not in got and time.monotonic() < end:
    time.sleep(0.02)
time.sleep(0.3)
print(*got, flush=True)
sys.exit(5)
"""


@pytest.mark.parametrize("to_all", [False, True], ids=["to it", "to its group"])
def test_signals_reach_the_job_once(to_all: bool) -> None:
    process = subprocess.Popen(
        [*RUN, *python(SIGNALLED)], stdout=subprocess.PIPE, env=environment(), text=True, start_new_session=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    for number in (signal.SIGUSR1, signal.SIGTERM):
        os.kill(-process.pid if to_all else process.pid, number)
        time.sleep(0.3)
    out, _ = process.communicate(timeout=60)
    assert (out, process.returncode) == ("usr1 term\n", 5)


@pytest.mark.scoreboard
def test_a_reader_that_leaves_ends_the_job_as_without_it() -> None:
    done = subprocess.run(
        ["bash", "-c", '"$@" | head -1; exit ${PIPESTATUS[0]}', "-", *RUN, "sh", "-c", "yes; echo $? >&2"],
        capture_output=True, check=False, timeout=60, env=environment(),
    )  # fmt: skip
    assert done.stdout == b"y\n" and done.stderr.startswith(b"141\n")


@pytest.mark.scoreboard
def test_what_the_job_leaves_behind_still_writes() -> None:
    began = time.monotonic()
    process = subprocess.Popen(
        [*RUN, "sh", "-c", "(sleep 1.5; echo later) & echo now"], stdout=subprocess.PIPE, env=environment(), text=True
    )
    status = process.wait(60)
    assert process.stdout is not None and process.stdout.read() == "now\nlater\n" and status == 0
    assert time.monotonic() - began > 1.4


def test_a_doctor_that_fails_does_not_touch_the_job(tmp_path: Path) -> None:
    """Here what it needs to read logs and to check cannot be imported."""
    for name in ("ahocorasick_rs", "psutil"):
        (tmp_path / f"{name}.py").write_text("raise SystemError('broken')\n")
    program = "import sys; sys.path.pop(0); print('done'); sys.exit(4)"
    broken = "import sys; sys.path.insert(0, sys.argv.pop(1)); from distdoctor.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", broken, str(tmp_path), "run", "--", *python(program)],
        capture_output=True, check=False, timeout=60, env=environment(),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (4, b"done\n")


FAILING = """
import sys
print("step 1 loss 2.5")
raise RuntimeError("[../gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:41904: Connection refused")
"""


def test_what_killed_it_is_told_below_its_output(tmp_path: Path) -> None:
    done = run(*python(FAILING), options=("-o", f"json={tmp_path / 'report.json'}"))
    assert (done.returncode, done.stdout) == (1, b"step 1 loss 2.5\n")
    job, _, told = done.stderr.decode().partition("FAIL  ")
    assert job.endswith("Connection refused\n")
    assert "[gloo/loopback-address]" in told and "GLOO_SOCKET_IFNAME" in told
    assert '"id": "gloo/loopback-address"' in (tmp_path / "report.json").read_text()


@pytest.mark.scoreboard
def test_what_torchrun_keeps_of_the_ranks_alone_is_read_where_it_died(tmp_path: Path) -> None:
    """With -r 3 what a rank says comes to no console; an older file there is not of this job."""
    logs, script, old = tmp_path / "logs", tmp_path / "train.py", tmp_path / "logs/earlier/stderr.log"
    script.write_text(
        "import os\nif os.environ['RANK'] == '1':\n    raise MemoryError('the second rank has no room')\n"
    )
    old.parent.mkdir(parents=True)
    old.write_text("ValueError: of another day\n")
    os.utime(old, (time.time() - 3600,) * 2)
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-r", "3")
    done = run(*torchrun, "--log-dir", str(logs), str(script))
    assert done.returncode == 1
    assert b"the second rank has no room" not in done.stdout
    job, _, told = done.stderr.decode().partition("FAIL  ")
    assert "the second rank has no room" not in job
    assert "MemoryError" in told and "the second rank has no room" in told and "of another day" not in told


LEAVES = """
import sys
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 1:
    sys.exit(int(sys.argv[1]))
dist.barrier()
"""


@pytest.mark.parametrize(
    ("records", "kept"),
    [
        ((("earlier", "usb 1-1: new device"),), True),
        ((("earlier", "usb 1-1: new device"), ("later", "Out of memory: Killed process 4711 (java)")), False),
        ((("later", "usb 1-1: new device"),), False),  # what came before has left the buffer
        (None, False),  # it may not be read
    ],
)
def test_signal_9_where_the_kernels_log_can_be_read(
    records: tuple[tuple[str, str], ...] | None, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = {"earlier": time.time() - 60, "later": time.time() + 1}
    log = None if records is None else tuple((at[when], text) for when, text in records)
    monkeypatch.setattr(processes, "read_kernel_log", lambda: log)
    reads, writes = os.pipe()
    watcher = Watcher(Watching(Telling(quiet=True)), reads, ())
    said = watcher._hear_the_kernel()
    os.close(reads)
    os.close(writes)
    assert bool(said) is kept


@pytest.mark.scoreboard
@pytest.mark.parametrize(("code", "check"), [("0", "process/peer-exited-early"), ("3", "process/peer-died")])
def test_a_rank_that_leaves_without_a_word(tmp_path: Path, code: str, check: str) -> None:
    """The launch says that there is no other rank and no other node that could have ended before it."""
    script = tmp_path / "train.py"
    script.write_text(LEAVES)
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    told = run(*torchrun, str(script), code).stderr.decode().partition("FAIL  ")[2]
    assert "(rank 1 on " in told.splitlines()[0] and f"[{check}]" in told


def test_of_many_tasks_one_tells_whole_and_another_a_line_of_its_cause() -> None:
    """With what srun sets for the second task of two on this host."""
    task = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_LOCALID": "1", "SLURM_NODEID": "0"}
    step = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2(x1)", "SLURM_STEP_NODELIST": "localhost"}
    done = run(*python(FAILING), options=("--preflight", "quick"), **task, **step, SLURM_STEP_NUM_NODES="1")
    told = [line for line in done.stderr.decode().splitlines() if "distdoctor" in line]
    assert done.returncode == 1 and len(told) == 1, done.stderr
    assert told[0].startswith("distdoctor: gloo/loopback-address: "), told


@pytest.mark.parametrize("on_fail", ["stop", pytest.param("go", marks=pytest.mark.scoreboard)])
def test_the_check_before_the_job(on_fail: str) -> None:
    command = [*RUN[:-3], "--on-fail", on_fail, "--", "echo", "started"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env=environment(GLOO_SOCKET_IFNAME="nosuch0")
    )
    assert "[gloo/interface-not-found]" in done.stderr
    assert (done.returncode, done.stdout) == ((0, "started\n") if on_fail == "go" else (1, ""))


WAITING = """
import sys, torch.distributed as dist
print("starting", flush=True)
dist.TCPStore("127.0.0.1", int(sys.argv[1]), 2, is_master=True, wait_for_workers=True)
"""


def test_where_nothing_moves_the_job_is_looked_at() -> None:
    """A rank whose peer does not come; then somebody ends it, and no cause is told of that."""
    port = str(unused_port())
    process = subprocess.Popen(
        [*RUN[:-1], "--hang-after", "2", "--", *python(WAITING), port],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env=environment(RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port),
    )  # fmt: skip
    assert process.stderr is not None
    told = []
    for line in process.stderr:
        told.append(line)
        if "Next: " in line:
            process.terminate()
    assert process.wait(60) == -signal.SIGTERM
    text = "".join(told)
    assert "nothing has moved for" in text and "Rank 1 has not joined init_process_group()" in text
    assert text.count("distdoctor 0") == 1, text


GIVES_UP = """
import datetime
import torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=15))
"""


@pytest.mark.scoreboard
def test_a_job_that_hung_before_it_ended(tmp_path: Path) -> None:
    """What the look found is told again below the cause of the end, which only shows who gave up."""
    port = str(unused_port())
    place = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    done = run(*python(GIVES_UP), options=("--preflight", "off", "--hang-after", "3"), **place)
    last = done.stderr.decode().rpartition("nothing has moved for")[2]
    assert "before it ended the job hung: Rank 1 has not joined init_process_group()" in last


@pytest.mark.parametrize(
    "words", [["--preflight", "some", "--", "true"], ["--"], ["true"], ["-o", "json", "--", "true"]]
)
def test_a_command_line_that_makes_no_sense(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert in_this_process(["run", *words]) == 2
    told = capsys.readouterr()
    assert told.out == "" and told.err.startswith("distdoctor: ")


def test_a_job_below_it_is_one_to_be_looked_at() -> None:
    """What is below a doctor is no job, but for what it runs."""
    assert _doctors_command(["python", "/x/bin/distdoctor", "run", "--", "torchrun"]) == "run"
    assert _doctors_command(["python", "-m", "distdoctor", "check"]) == "check"
    assert _doctors_command(["torchrun", "-m", "distdoctor", "check"]) == "check"
    assert _doctors_command(["python", "-c", "...", "/x/distdoctor", "inside"]) == "inside"
    assert _doctors_command(["torchrun", "train.py", "a", "b", "c", "d", "distdoctor"]) is None


NEVER_JOINS = "distdoctor: SLURM allocated 2 nodes; --nnodes is 3: 1 node will never join. Fix: start the job with"


@pytest.mark.parametrize("status", [0, 5])
def test_nodes_that_were_never_started_are_told_first_and_last(tmp_path: Path, status: int) -> None:
    """The job is started all the same."""
    agent = tmp_path / "torchrun"
    agent.write_text(f"#!/bin/sh\necho started\nexit {status}\n")
    agent.chmod(0o755)
    line = (str(agent), "--nnodes", "3", "--node-rank", "0", "--master-addr", "127.0.0.1", "train.py")
    done = run(*line, options=("--preflight", "off"), SLURM_JOB_ID="7", SLURM_JOB_NUM_NODES="2")
    told = done.stderr.decode().splitlines()
    assert (done.returncode, done.stdout) == (status, b"started\n")
    assert told[0].startswith(NEVER_JOINS) and told[-1].startswith(NEVER_JOINS), told
    assert sum(one.startswith(NEVER_JOINS) for one in told) == (2 if status else 1)


def test_a_quick_check_says_that_it_saw_this_node_only() -> None:
    """Node 1 of 2, whose node 0 has not started: the port is refused."""
    ranks = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unused_port())}
    done = run("true", options=("--preflight", "quick"), **ranks, **master)
    told = done.stderr.decode()
    assert "passed on this node" in told and "the other nodes were not checked" in told, told
    assert "MASTER_PORT is refused so far: node 0 has not started" in told, told
