"""Tests of what is read of processes: real ones, that wait in known places."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

import psutil
import pytest

from distdoctor.hang import proc, snapshot, stacks
from distdoctor.hang.agent_options import of_agent
from distdoctor.hang.proc import SocketTables, restarted
from distdoctor.knowledge.live.stacks import waiting
from distdoctor.model.facts import Frame, JobThread
from tests.helpers.programs import python

CAP_SYS_PTRACE = 19
FORKS = "if os.fork(): os._exit(0)"
"""What the process runs on which tracing is tried."""


def main_thread(pid: int) -> JobThread:
    return snapshot.thread_facts(pid, SocketTables())[0]


def test_one_that_sleeps() -> None:
    with python("import time; print(1, flush=True); time.sleep(60)") as process:
        thread = main_thread(process.pid)
        before = snapshot.take(process.pid, 0.0)
        after = snapshot.take(process.pid, 1.0)
    assert (thread.state, waiting(thread)) == ("S", "sleeps")
    assert before and after and snapshot.movement_between(before, after).main_cpu == 0.0


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to make a control group")
def test_one_that_is_frozen_with_its_control_group() -> None:
    group = next((Path(root, f"distdoctor-test-{os.getpid()}") for root in proc._ROOTS_V2 if can_freeze(root)), None)
    if group is None:
        pytest.skip("no control group of version 2 can be made here")
    with python("import time; print(1, flush=True); time.sleep(60)") as process:
        group.mkdir()
        try:
            (group / "cgroup.procs").write_text(str(process.pid))
            assert proc.frozen(process.pid) == ""
            (group / "cgroup.freeze").write_text("1")
            deadline = time.monotonic() + 20
            while not (frozen := proc.frozen(process.pid)) and time.monotonic() < deadline:
                time.sleep(0.05)  # it has to come back to the kernel
            assert frozen == str(group)
        finally:
            process.kill()
            process.wait()
            group.rmdir()


def can_freeze(root: str) -> bool:
    """Return whether groups that can be frozen can be made below: in /sys/fs/cgroup only where it is of version 2."""
    return os.access(f"{root}/cgroup.procs", os.W_OK) and os.path.exists(f"{root}/cgroup.controllers")


def test_one_that_reads_a_pipe() -> None:
    with python("import sys; print(1, flush=True); sys.stdin.read()") as process:
        assert waiting(main_thread(process.pid)).startswith("read on pipe:[")


def test_one_that_waits_for_a_signal() -> None:
    with python("import signal; print(flush=True); signal.sigwait({signal.SIGUSR1})") as process:
        deadline = time.monotonic() + 10.0
        while (waits := waiting(main_thread(process.pid))) != "waits for a signal":
            assert time.monotonic() < deadline, waits
            time.sleep(0.05)


def test_one_that_computes_moves() -> None:
    with python("print(1, flush=True)\nwhile True: pass") as process:
        before = snapshot.take(process.pid, 0.0)
        assert before is not None
        deadline = time.monotonic() + 20
        while (after := snapshot.take(process.pid, 0.5)) and after.cpu < before.cpu + 0.1:
            assert time.monotonic() < deadline, "it was given no processor"
            time.sleep(0.05)
    assert after and snapshot.movement_between(before, after).main_cpu > 0.02


def test_one_that_is_gone() -> None:
    with python("print(1, flush=True)") as process:
        process.wait()
        pid = process.pid
    assert snapshot.take(pid, 0.0) is None


def test_sockets_with_their_states() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        accepted.close()  # the client's side of it is closed by its peer
        port = server.getsockname()[1]
        mine = [s for s in SocketTables().of(os.getpid()) or () if port in (s.local_port, s.remote_port)]
        states = {s.state: s for s in mine}
        assert {"LISTEN", "CLOSE_WAIT"} <= states.keys()
        assert states["LISTEN"].local == "127.0.0.1"
        assert states["CLOSE_WAIT"].local_port == client.getsockname()[1]
        assert states["CLOSE_WAIT"].remote_port == port


def test_sockets_of_another_namespace_are_those_of_the_process() -> None:
    """Each process's own table is read, and only what it has open counts."""
    with socket.create_server(("127.0.0.1", 0)) as server, python("print(1, flush=True); input()") as other:
        assert not [s for s in SocketTables().of(other.pid) or () if s.local_port == server.getsockname()[1]]


def test_whether_tracing_is_allowed_is_tried_and_nothing_is_left() -> None:
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    yama = Path("/proc/sys/kernel/yama/ptrace_scope")
    scope, capable = int(yama.read_text()) if yama.exists() else 0, int(status["CapEff"], 16) >> CAP_SYS_PTRACE & 1
    found, expected = stacks.may_trace(), scope == 0 or (scope < 3 and capable == 1)
    seen = [one for one in psutil.process_iter(["cmdline"]) if FORKS in " ".join(one.info["cmdline"] or ())]
    assert not psutil.wait_procs(seen, timeout=5)[1], "one that others try it on ends at once, one of ours in 20 s"
    if found is not expected and status["Seccomp"] != "0":
        pytest.skip("a filter of system calls forbids it here")
    assert found is expected


@pytest.mark.skipif(bool(stacks.why_not()), reason="py-spy is not here, or may not be used")
def test_the_stack_of_another_process() -> None:
    with python("import time\ndef held():\n    time.sleep(60)\nprint(1, flush=True)\nheld()") as process:
        frames, error = stacks.read([process.pid])[process.pid]
    assert error == ""
    assert [frame.function for frame in frames[process.pid]] == ["held", "<module>"]


@pytest.mark.skipif(bool(stacks.why_not()), reason="py-spy is not here, or may not be used")
def test_reading_the_stack_of_one_that_waits_does_not_wake_it() -> None:
    with python("import time; print(1, flush=True); time.sleep(60)") as process:
        before = snapshot.take(process.pid, 0.0)
        time.sleep(0.5)
        frames, _ = stacks.read([process.pid])[process.pid]
        after, idle = snapshot.take(process.pid, 1.0), snapshot.idle_facts(process.pid)
    assert frames[process.pid]
    assert before and after and snapshot.movement_between(before, after).switches == 0
    assert idle is None or idle >= 0.5


def test_stacks_of_a_process_that_is_gone_are_an_error_in_words() -> None:
    if stacks.program() is None:
        pytest.skip("py-spy is not here")
    with python("print(1, flush=True)") as process:
        process.wait()
        frames, error = stacks.read([process.pid])[process.pid]
    assert frames == {} and error.startswith("py-spy")


@pytest.mark.parametrize(
    ("command", "variables", "endpoint", "nodes", "run_id"),
    [
        ("torchrun --nnodes 2 --master-addr a --master_port=5 t.py --nnodes 9", {}, ("a", 5), (2, 2), "none"),
        ("torchrun --rdzv-backend=c10d --rdzv_endpoint h:7 --rdzv-id r --nnodes 1:4 t.py", {}, ("h", 7), (1, 4), "r"),
        ("python -m torch.distributed.run --standalone -m mod", {}, None, (1, 1), "none"),  # run.py: localhost:0
        ("torchrun --rdzv-backend c10d --rdzv-endpoint localhost:0 --rdzv-id r t.py", {}, None, (1, 1), "r"),
        ("torchrun t.py", {"PET_NNODES": "3", "PET_MASTER_ADDR": "m"}, ("m", 29500), (3, 3), "none"),
        ("torchrun --rdzv-backend c10d --rdzv-endpoint h t.py", {}, ("h", 29400), (1, 1), "none"),
        ("torchrun --rdzv-b c10d --rdzv-end h:7 --rdzv-i r --nno 2 t.py", {}, ("h", 7), (2, 2), "r"),  # cut short
        # It was told as an agent that looks for its store at 127.0.0.1:29500.
        ("python /x/bin/accelerate launch --num_machines 2 --num_processes 4 --main_process_ip h --main_process_port 7 "
         "--machine_rank 1 t.py", {"HF_HOME": "/none"}, ("h", 7), (2, 2), "none"),
        ("python -m accelerate.commands.launch --num_machines 2 --num_processes 4 --main_process_ip h --rdzv_backend "
         "c10d t.py", {"HF_HOME": "/none"}, ("h", 29500), (2, 2), "none"),
        ("python /x/bin/fabric run --num-nodes 2 --main-address h t.py", {}, None, None, "none"),
        ("python start.py", {"PET_NNODES": "2"}, None, None, "none"),
    ],
)  # fmt: skip
def test_what_torchrun_was_told(
    command: str,
    variables: dict[str, str],
    endpoint: tuple[str, int] | None,
    nodes: tuple[int, int] | None,
    run_id: str,
) -> None:
    told = of_agent(command.split(), variables)
    assert (told.endpoint, told.nodes, told.rdzv_id) == (endpoint, nodes, run_id)


def test_a_call_that_a_debugger_interrupted() -> None:
    assert restarted("futex_do_wait") == ("futex", True)
    assert restarted("hrtimer_nanosleep") == ("clock_nanosleep", None)
    assert restarted("poll_schedule_timeout") == ("poll", None)


def test_native_frames_are_asked_first_of_one_at_each_place() -> None:
    here, there = (Frame("all_reduce", "c10d.py", 1),), (Frame("read", "data.py", 2),)
    found: dict[int, tuple[stacks.Stack, str]] = {pid: ({pid: here}, "") for pid in (1, 2, 3)}
    found |= {4: ({4: there}, ""), 5: ({}, "py-spy: it is gone")}
    assert list(stacks.odd_ones_first(found)) == [4, 1, 2, 3]


@pytest.mark.parametrize(
    ("path", "short", "own"),
    [
        ("/build/pytorch/torch/distributed/distributed_c10d.py", "torch/distributed/distributed_c10d.py", False),
        ("/home/me/train.py", "train.py", True),
        ("/home/me/torch_models/train.py", "torch_models/train.py", True),
    ],
)
def test_files_of_torch_are_not_the_job_s_own_wherever_they_lie(path: str, short: str, own: bool) -> None:
    frame = stacks._frame({"name": "f", "filename": path, "short_filename": short, "line": 8})
    assert frame == Frame("f", short, 8, own)


POLLS = """
import ctypes, threading
def poll():
    ctypes.CDLL(None).prctl(15, b"TP_SHM_reactor", 0, 0, 0)
    print(1, flush=True)
    while True: pass
threading.Thread(target=poll, daemon=True).start()
threading.Event().wait()
"""


def test_a_thread_that_polls_for_messages_is_no_progress() -> None:
    with python(POLLS) as process:
        before = snapshot.take(process.pid, 0.0)
        deadline = time.monotonic() + 20
        while (whole := proc.stat(process.pid)) and whole.cpu < 0.5 and time.monotonic() < deadline:
            time.sleep(0.1)
        after = snapshot.take(process.pid, 1.0)
    assert whole and whole.cpu >= 0.5
    assert before and after and snapshot.movement_between(before, after).cpu <= 0.05


MANY = """
import ctypes, threading
for _ in range(300):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
def run():
    ctypes.CDLL(None).prctl(15, b"pt_gloo_runloop", 0, 0, 0)
    print(1, flush=True)
    threading.Event().wait()
threading.Thread(target=run, daemon=True).start()
threading.Event().wait()
"""


def test_those_of_torch_distributed_are_seen_among_many_threads() -> None:
    """A rank begins them last: after those of OpenMP, and of libraries."""
    with python(MANY) as process:
        found = snapshot.thread_facts(process.pid, SocketTables())
    assert len(found) == snapshot.MOST_THREADS
    assert (found[0].tid, found[-1].name) == (process.pid, "pt_gloo_runloop")
    assert len({one.tid for one in found}) == len(found)


ANSWERS = POLLS.replace("TP_SHM_reactor", "pt_tcpstore_uv").replace(
    "while True: pass", "while True: open('/dev/zero', 'rb').read(100); __import__('time').sleep(0.01)"
)


@pytest.mark.parametrize(("name", "reads"), [("pt_tcpstore_uv", False), ("python", True)])
def test_what_a_store_answers_others_is_no_progress(name: str, reads: bool) -> None:
    with python(ANSWERS.replace("pt_tcpstore_uv", name)) as process:
        before = snapshot.take(process.pid, 0.0)
        time.sleep(0.3)
        after = snapshot.take(process.pid, 1.0)
    assert before and after and (snapshot.movement_between(before, after).read > 0) is reads


@pytest.mark.parametrize(("name", "exchanges"), [("gloo_tcp_loop", True), ("python", False)])
def test_what_gloo_exchanges_with_its_peers(name: str, exchanges: bool) -> None:
    with python(ANSWERS.replace("pt_tcpstore_uv", name)) as process:
        before = snapshot.take(process.pid, 0.0)
        time.sleep(0.3)
        after = snapshot.take(process.pid, 1.0)
    assert before and after and (snapshot.movement_between(before, after).exchanged > 0) is exchanges


NAMED = """
import ctypes, threading
def spin():
    ctypes.CDLL(None).prctl(15, b"gloo_tcp_loop")
    print(1, flush=True)
    while True:
        pass
threading.Thread(target=spin, daemon=True).start()
threading.Event().wait()
"""


def test_a_thread_of_gloos_that_runs_is_no_reason_to_stop_its_process() -> None:
    """It is never in Python; stopping the process would wake its main thread, and hide since when that waits."""
    with python(NAMED) as process:
        assert not stacks._runs(process.pid)
    with python(NAMED.replace("gloo_tcp_loop", "python")) as process:
        assert stacks._runs(process.pid)


def test_a_stack_that_cannot_be_had_is_noted() -> None:
    frame = Frame("f", "f.py")
    found: dict[int, tuple[stacks.Stack, str]] = {1: ({1: (frame,)}, "")}
    found |= dict.fromkeys((2, 3), ({}, "py-spy: Permission denied"))
    assert stacks.failed(found) == ["no Python stack of process 2, 3: py-spy: Permission denied"]


def test_who_was_woken_on_another_processor_has_not_slept_since_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel forgets there when it ran last: a rank once seemed to have waited since the machine was started."""
    monkeypatch.setattr(proc, "last_run", lambda pid: 0.0)
    assert snapshot.idle_facts(os.getpid()) == 0.0


def test_a_processor_so_busy_that_a_thread_waits_half_a_second_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it was unknown for how long a rank had waited, and a rank that pauses was taken for one that hangs."""
    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: sleep(0.5))
    if (cpu := proc.last_cpu(os.getpid())) is None or proc.last_run(os.getpid()) is None:
        pytest.skip("this kernel does not say when a process ran last")
    assert snapshot._scheduler_clock.__wrapped__(cpu, 0) is not None


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python's sleep tells how long, not until when")
def test_how_long_a_thread_beside_the_main_one_sleeps() -> None:
    """What another rank has called runs in one (torch.distributed.rpc)."""
    code = "import threading, time; threading.Thread(target=time.sleep, args=(500,)).start(); print(1, flush=True)"
    with python(f"{code}; input()") as process:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            _, other = snapshot.thread_facts(process.pid, SocketTables())
            if other.left is not None:
                break
            time.sleep(0.05)
        process.kill()
    assert other.left is not None and 400 < other.left <= 500
