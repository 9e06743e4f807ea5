"""Cause before consequence: which of the lines of a log, or of several, is the root, and when there is none."""

from __future__ import annotations

from pathlib import Path
from time import gmtime, strftime

import pytest

from tests.logs.judging import CLOSED, TABLE, judged, raised, roots


def test_the_exception_of_the_rank_that_failed_first(tmp_path: Path) -> None:
    text = raised("[rank1]: ", CLOSED) + raised("[rank0]: ", "KeyError: 'lr'") + TABLE.format(code=1, told="x")
    assert roots(tmp_path, text) == [("process/exception", (0,))]


def test_what_peers_said_is_told_as_what_follows(tmp_path: Path) -> None:
    found = judged(tmp_path, raised("[rank0]: ", "KeyError: 'lr'") + raised("[rank1]: ", CLOSED))
    assert {finding.because_of for finding in found.findings[1:]} == {"process/exception"}
    assert "process/peer-died" in [finding.check for finding in found.findings[1:]]
    assert "raised at /home/u/train.py:8 in main" in found.findings[0].evidence


def test_of_chained_exceptions_the_last(tmp_path: Path) -> None:
    text = raised("", "KeyError: 'lr'") + "\nDuring handling of the above exception, another exception occurred:\n\n"
    found = judged(tmp_path, text + raised("", "ValueError: no learning rate"))
    assert found.findings[0].summary == "A process failed at train.py:8 with ValueError: no learning rate."
    found = judged(tmp_path, raised("", "ValueError: no learning rate."))
    assert found.findings[0].summary == "A process failed at train.py:8 with ValueError: no learning rate."


@pytest.mark.parametrize(
    ("frame", "first"),
    [("/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", True), ("/home/u/train.py", False)],
)
def test_an_error_of_tidying_up_does_not_hide_why_it_was_done(tmp_path: Path, frame: str, first: bool) -> None:
    above = raised("[rank2]: ", "ValueError: loss is nan at step 100")
    function = "destroy_process_group" if first else "step"
    text = (
        f"{above}\n[rank2]: During handling of the above exception, another exception occurred:\n\n"
        "[rank2]: Traceback (most recent call last):\n"
        f'[rank2]:   File "{frame}", line 2146, in {function}\n'
        "[rank2]:     assert pg is not None\n"
        "[rank2]: AssertionError\n"
    )
    (finding,) = judged(tmp_path, text).findings
    assert ("loss is nan" in finding.summary) is first and finding.ranks == (2,)
    assert ("AssertionError" in finding.summary) is not first


@pytest.mark.parametrize(
    ("error", "check"),
    [
        ("ValueError: Default process group has not been initialized", "process/exception"),
        ("ValueError: Invalid process group specified", "process/exception"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "gpu/out-of-memory"),
    ],
)
def test_groups_that_are_used_once_more_at_the_end(tmp_path: Path, error: str, check: str) -> None:
    """As in a finally: why the program ended was said before. What ends it there says more than that."""
    handled = "[rank2]: \n[rank2]: During handling of the above exception, another exception occurred:\n[rank2]: \n"
    text = raised("[rank2]: ", error).replace("/home/u/train.py", "/x/torch/distributed/distributed_c10d.py")
    (first, *_) = judged(tmp_path, raised("[rank2]: ", "ValueError: loss is nan") + handled + text).findings
    assert (first.check, first.ranks) == (check, (2,))
    assert check != "process/exception" or "loss is nan" in first.summary
    alone = judged(tmp_path, text).findings[0]
    assert alone.check == ("collective/group-not-initialized" if "Default" in error else check)


@pytest.mark.parametrize(
    ("code", "told", "check"),
    [
        (-9, "Signal 9 (SIGKILL) received by PID 101", "process/killed-by-oom"),
        (-11, "Signal 11 (SIGSEGV) received by PID 101", "process/crashed"),
        (-7, "Signal 7 (SIGBUS) received by PID 101", "host/shared-memory-small"),
    ],
)
def test_how_the_first_process_ended(tmp_path: Path, code: int, told: str, check: str) -> None:
    found = judged(tmp_path, TABLE.format(code=code, told=told))
    assert (found.findings[0].check, found.findings[0].ranks, found.findings[0].nodes) == (check, (8,), ("gpu02",))


def test_signal_9_alone_is_not_told_as_want_of_memory(tmp_path: Path) -> None:
    told = TABLE.format(code=-9, told="Signal 9 (SIGKILL) received by PID 101")
    finding = judged(tmp_path, told).findings[0]
    assert finding.title.startswith("A process was killed by signal 9") and "kill -9" in finding.summary
    assert finding.fixes[0].text.startswith("Confirm it first in") and "dmesg" in finding.fixes[0].commands[0]
    proof = "[9.100000] Memory cgroup out of memory: Killed process 101 (python) total-vm:1kB, anon-rss:1kB\n"
    finding = judged(tmp_path, told, proof).findings[0]
    assert finding.title == "The kernel killed a process because memory ran out" and finding.fixes[0].text.startswith(
        "Request more"
    )


def test_who_docker_says_was_not_out_of_memory_is_not_told_so(tmp_path: Path) -> None:
    state = '"Status": "exited",\n"OOMKilled": %s,\n"ExitCode": 137,\n'
    assert "killed by signal 9" in judged(tmp_path, state % "false" + "exit code 137\n").findings[0].title
    assert judged(tmp_path, state % "true").findings[0].title == "The kernel killed a process because memory ran out"


def test_a_rank_whose_own_timer_ran_out(tmp_path: Path) -> None:
    """As torchelastic's timers log it; one that has no signal to send goes on."""
    reaping = "INFO timer: Reaping worker_pid=[101]. Expired timers: ['load_batch']\n"
    ended = (
        "Successfully reaped worker=[101] with signal=9\nTerminating the server process=[33] because of expired timers"
    )
    killed = TABLE.format(code=-9, told="Signal 9 (SIGKILL) received by PID 101")
    assert roots(tmp_path, f"{reaping}INFO timer: {ended}\n{killed}") == [("process/timer-expired", (8,))]
    left = f"{reaping}INFO timer: No signal specified with worker=[101]. Do not reap it.\n"
    assert judged(tmp_path, left).findings == ()
    assert roots(tmp_path, left + killed) == [("process/killed-by-oom", (8,))]


@pytest.mark.parametrize("code", [1, -6, -15])
def test_an_exit_code_that_says_nothing(tmp_path: Path, code: int) -> None:
    found = judged(tmp_path, TABLE.format(code=code, told="To enable traceback see: https://pytorch.org/"))
    assert (found.verdict, found.findings) == ("incomplete", ())
    assert found.candidates


def test_what_a_launcher_then_did_says_the_least(tmp_path: Path) -> None:
    text = "W1125 18:01:01.480000 9 torch/x.py:908] Sending process 4260 closing signal SIGTERM\n"
    found = judged(tmp_path, f"{text}E1125 18:01:01.720000 9 torch/x.py:882] failed (exitcode: 1) local_rank: 1\n")
    assert [one.check for one in found.candidates] == ["process/exception", "process/terminated"]
    assert "exitcode: 1" in found.candidates[0].why and not found.notes


def test_ended_from_outside_after_something_failed(tmp_path: Path) -> None:
    agent = "W0101 10:00:00.000000 1 torch/distributed/elastic/agent/server/api.py:1] Received 15 death signal\n"
    assert roots(tmp_path, agent) == [("process/terminated", ())]
    assert judged(tmp_path, f"{CLOSED}\n{agent}").verdict == "incomplete"
    assert roots(tmp_path, agent + raised("[rank2]: ", "OSError: [Errno 28] No space left on device")) == [
        ("host/disk-full", (2,))
    ]


def test_what_the_log_goes_on_after_is_no_failure(tmp_path: Path) -> None:
    steps = "".join(f"step {number} loss 0.5\n" for number in range(20))
    assert judged(tmp_path, f"RuntimeError: Address already in use\n{steps}").findings == ()
    assert roots(tmp_path, f"{steps}RuntimeError: Address already in use\n") == [("network/port-in-use", ())]


def test_logs_of_several_ranks_beside_each_other(tmp_path: Path) -> None:
    """By the clock: the first file's rank only lost its peer."""
    late = raised("2026-01-01 10:00:09,000 [rank0]: ", "RuntimeError: CUDA error: an illegal address")
    early = raised("2026-01-01 10:00:01,000 [rank5]: ", "RuntimeError: CUDA out of memory. Tried to allocate 1 GiB")
    assert roots(tmp_path, late, early) == [("gpu/out-of-memory", (5,))]


@pytest.mark.parametrize(
    "text",
    [
        "step 1 loss 0.3\nstep 2 loss 0.2\n",
        "[W socket.cpp:464] [c10d] The server socket cannot be initialized on [::]:6001 (errno: 97).\n",
        "n0:1:2 [0] NCCL INFO NET/Plugin : No plugin found, using internal implementation\n",
        "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n",
        "",
    ],
)
def test_no_failure_is_no_finding(tmp_path: Path, text: str) -> None:
    found = judged(tmp_path, f"begin\n{text}")
    assert (found.findings, found.candidates) == ((), ()) and found.verdict in ("pass", "warn")


def test_a_source_line_is_not_what_was_said(tmp_path: Path) -> None:
    text = '  File "a.py", line 3, in f\n    raise RuntimeError("CUDA out of memory")\n'
    assert judged(tmp_path, text).findings == ()


def test_what_ends_the_job_is_not_survived(tmp_path: Path) -> None:
    """Ranks that hold the signal back write a few lines more; a job that starts again has survived it."""
    steps = "".join(f"Epoch 10:  93%|#| {number}/20000 [5:43:21<25:19,  0.90it/s, loss=3.4]\n" for number in range(20))
    limit = "slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2025-01-10T15:27:25 DUE TO TIME LIMIT ***\n"
    found = judged(tmp_path, f"{steps}{limit}Bypassing SIGTERM: 15\n{steps}")
    assert [(one.check, one.nodes) for one in found.findings] == [("process/killed-by-scheduler", ("n1",))]


def test_who_was_ended_with_a_cancelled_step_was_not_out_of_memory(tmp_path: Path) -> None:
    killed = "srun: error: n1: tasks 0-3: Killed\n"
    cancelled = "slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2025-01-10T15:27:25 ***\n"
    assert judged(tmp_path, cancelled + killed).verdict == "incomplete"
    assert roots(tmp_path, killed) == [("process/killed-by-oom", (0, 1, 2, 3))]


def test_whom_a_barrier_names_and_not_who_says_so(tmp_path: Path) -> None:
    line = "RuntimeError: [Rank 0]: Ranks 1 failed to pass monitoredBarrier in 300000 ms\n"
    assert roots(tmp_path, f"[rank0]: {line}") == [("barrier/rank-missing", (1,))]


def test_steps_that_were_created_after_all(tmp_path: Path) -> None:
    waiting = "srun: Job 5 step creation temporarily disabled, retrying (Requested nodes are busy)\n"
    assert roots(tmp_path, waiting) == [("launch/srun-step-blocked", ())]
    assert roots(tmp_path, f"{waiting}srun: Step created for StepId=5.1\n") == []


MISSED = "[rank0]: RuntimeError: [Rank 0]: Ranks 1 failed to pass monitoredBarrier in 6000 ms\n"


def test_who_is_missed_is_no_root_where_it_failed_itself(tmp_path: Path) -> None:
    assert roots(tmp_path, MISSED) == [("barrier/rank-missing", (1,))]
    assert roots(tmp_path, MISSED, raised("[rank1]: ", "KeyError: 'label'")) == [("process/exception", (1,))]
    assert roots(tmp_path, MISSED, raised("[rank2]: ", CLOSED)) == [("barrier/rank-missing", (1,))]


RECORD = "2026-01-01 10:00:0{}, {} train: {}\n"


def test_what_a_logger_wrote_and_went_on(tmp_path: Path) -> None:
    caught = RECORD.format(1, "WARNING", "no apex, going on") + raised(
        "", "ModuleNotFoundError: No module named 'apex'"
    )
    after = RECORD.format(2, "INFO", "loading shards")
    assert judged(tmp_path, caught + after).verdict == "warn"
    assert roots(tmp_path, caught) == [("process/exception", ())]  # it ends with it
    died = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
    assert roots(tmp_path, caught + after + died) == [("process/exception", ())]
    assert roots(tmp_path, raised("", "KeyError: 'label'") + after) == [("process/exception", ())]  # no logger's


def test_which_node_was_ended_from_outside_by_the_clock(tmp_path: Path) -> None:
    """Its peer's file is read first, and shows what followed."""
    line = "{}1121 10:00:0{}.000000 23 torch/distributed/elastic/x.py:1] {}\n"
    peer = raised("[rank0]: ", CLOSED) + line.format("E", 5, "failed (exitcode: 1) local_rank: 0 (pid: 25)")
    ended = line.format("W", 4, "Received 15 death signal, shutting down workers")
    assert roots(tmp_path, peer, ended) == [("process/terminated", ())]
    assert roots(tmp_path, peer.replace("10:00:05", "10:00:03"), ended) == []


@pytest.mark.parametrize("doing", ["in: ", "while calling deallocator "])  # up to Python 3.13, and since 3.14
def test_what_python_ignored_is_no_failure(tmp_path: Path, doing: str) -> None:
    told = raised("", "AssertionError: a worker is not my child", "self.join()")
    assert roots(tmp_path, f"Exception ignored {doing}<function Loader.__del__ at 0x7f>\n{told}") == []
    assert roots(tmp_path, f"tidying up\n{told}") == [("process/exception", ())]


def test_a_failure_of_nobody_is_of_the_one_that_failed(tmp_path: Path) -> None:
    """Torchrun's table names rank 8; rank 9 was only ended after it."""
    text = raised("", "KeyError: 'lr'") + TABLE.format(code=1, told="x")
    found = judged(tmp_path, text)
    assert (found.findings[0].check, found.findings[0].ranks, found.findings[0].nodes) == (
        "process/exception",
        (8,),
        ("gpu02",),
    )
    several = text.replace("exitcode  : -15 (pid: 102)", "exitcode  : 1 (pid: 102)")
    assert roots(tmp_path, several) == [("process/exception", ())]  # of two at once it takes the lowest


def test_transports_that_nccl_does_without(tmp_path: Path) -> None:
    lines = "n1:1:2 [0] NCCL INFO include/coll_net.h:21 -> 3\nn1:1:2 [0] NCCL INFO transport.cc:222 -> 2\n"
    assert judged(tmp_path, lines).candidates == ()
    assert judged(tmp_path, f"{lines}n1:1:2 [0] NCCL INFO init.cc:1012 -> 2\n").candidates


def test_of_two_logs_without_a_clock_what_prevents_the_earlier_milestone(tmp_path: Path) -> None:
    """The name of node 0 is unknown on one node; that a rank then missed a barrier follows from it."""
    late = "RuntimeError: Rank 1 failed to pass monitoredBarrier in 6000 ms\n"
    early = "RuntimeError: The IPv4 network addresses of (node0.typo, 29500) cannot be retrieved (gai error: -2 - x)\n"
    both = [check for check, _ in roots(tmp_path, late, early)]
    assert both == [check for check, _ in roots(tmp_path, early)]
    one = [check for check, _ in roots(tmp_path, late + early)]
    assert one == [check for check, _ in roots(tmp_path, late)], "in one log the order says it"


def test_what_a_file_system_calls_an_error_is_no_exception(tmp_path: Path) -> None:
    line = "LustreError: 11-0: lustre-OST0001-osc: operation ost_connect to node 10.0.0.1@o2ib failed: rc = -110"
    assert judged(tmp_path, f"[ 1234.567890] {line}\n").findings == ()


def test_what_its_own_line_and_traceback_say_besides_is_no_consequence(tmp_path: Path) -> None:
    found = judged(tmp_path, raised("", "ValueError: host not found: Name or service not known"))
    assert [one.check for one in found.findings] == ["network/master-unresolvable"]


@pytest.mark.parametrize(("here", "stale"), [(1, False), (2, False), (4, True)])
def test_more_workers_than_the_world_has(tmp_path: Path, here: int, stale: bool) -> None:
    told = "Timed out initializing process group in store based barrier on rank: 0, for key: k (world_size=2, "
    found = judged(tmp_path, f"{told}worker_count={here}, timeout=0:02:00)\n")
    assert ("environment/stale-init-file" in [one.check for one in found.candidates]) is stale


@pytest.mark.parametrize(
    ("line", "check", "title", "fix"),
    [
        (
            "slurmstepd: error: *** JOB 3 ON n1 CANCELLED AT 1 DUE TO NODE FAILURE ***",
            "killed-by-scheduler",
            "node",
            "out",
        ),
        (
            "slurmstepd: error: *** JOB 3 ON n1 CANCELLED AT 1 DUE TO TIME LIMIT ***",
            "killed-by-scheduler",
            "ended",
            "time",
        ),
        ("   JobState=PREEMPTED Reason=None", "killed-by-scheduler", "gave", "requeue"),
        ("OSError: [Errno 30] Read-only file system: '/out'", "disk-full", "read-only", "another folder"),
        ("OSError: [Errno 28] No space left on device", "disk-full", "full", "Free space"),
        ("ModuleNotFoundError: No module named 'torch'", "torch-missing", "torch", "every node"),
        ("ssh: connect to host n7 port 22: Connection refused", "ssh-unreachable", "sshd", "the host and its sshd"),
        ("Host key verification failed.", "ssh-unreachable", "key", "known_hosts"),
        (
            "srun: error: Unable to create step for job 1: Requested nodes are busy",
            "srun-step-blocked",
            "step",
            "--overlap",
        ),
        (
            "srun: error: Unable to create step for job 1: Invalid Trackable RESource",
            "srun-step-blocked",
            "SLURM",
            "colon",
        ),
        ("train.py: error: unrecognized arguments: --lr 1", "exception", "command line", "Correct"),
        (
            "zmq.error.ZMQError: Address already in use (addr='tcp://*:5555')",
            "port-in-use",
            "the program",
            "another port",
        ),
        ("RuntimeError: [c10d] bind(): Address already in use", "port-in-use", "MASTER_PORT", "same on every node"),
        ("OSError: [Errno 12] Cannot allocate memory", "killed-by-oom", "requested more memory", "Request more memory"),
        (
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8",
            "driver-too-old",
            "image",
            "image",
        ),
    ],
)
def test_the_remedy_is_of_what_the_line_shows(tmp_path: Path, line: str, check: str, title: str, fix: str) -> None:
    finding = judged(tmp_path, f"{line}\n").findings[0]
    assert finding.check.endswith(check) and title in finding.title and fix in finding.fixes[0].text


@pytest.mark.parametrize(
    "line",
    [
        "git@github.com: Permission denied (publickey).",
        "BlockingIOError: [Errno 11] Unable to open file (unable to lock file: 'Resource temporarily unavailable')",
        '"OOMKilled": false,',
        "If you see 'RuntimeError: Address already in use', choose another port",
        "Hint: CUDA out of memory is often too large a batch",
    ],
)
def test_what_only_sounds_like_it(tmp_path: Path, line: str) -> None:
    assert {one.check for one in judged(tmp_path, f"{line}\n").findings} <= {"process/exception"}


def test_the_reason_is_at_the_end_of_what_torch_wraps(tmp_path: Path) -> None:
    wrapped = raised("", "IndexError: Caught IndexError in DataLoader worker process 25.", "raise exception")
    original = raised("", "IndexError: list index out of range").replace("Traceback", "Original Traceback", 1)
    found = judged(tmp_path, wrapped + original).findings[0]
    assert "list index out of range" in found.summary


def test_the_head_of_a_traceback_whose_end_is_known_is_no_symptom_of_its_own(tmp_path: Path) -> None:
    found = judged(tmp_path, raised("[rank0]: ", CLOSED))
    assert "process/exception" not in [candidate.check for candidate in found.candidates]
    cut = raised("[rank0]: ", CLOSED) + raised("[rank0]: ", "cut off")
    assert "process/exception" in [candidate.check for candidate in judged(tmp_path, cut).candidates]


def test_the_error_within_a_checkpoint_exception(tmp_path: Path) -> None:
    """Its text (__str__() in torch/distributed/checkpoint/api.py) is the traceback of each rank."""
    outer = raised("", "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([0])")
    inner = raised("", "RuntimeError: Missing key in checkpoint state_dict: head.weight.").replace("):", "): (RANK 0)")
    (root,) = judged(tmp_path, outer + inner).findings
    assert "head.weight" in root.summary
    (root,) = judged(tmp_path, outer).findings
    assert "CheckpointException" in root.summary
    full = raised("", "RuntimeError: [enforce fail at inline_container.cc:664] . unexpected pos 704 vs 598")
    assert roots(tmp_path, outer + full) == [("host/disk-full", ())]
    assert len(roots(tmp_path, outer + "step 1 loss 2\n" * 700 + full)) == 1


@pytest.mark.parametrize("command", ["( while true; do", "sleep 90", "tail -f x.log"])
def test_a_helper_of_the_script_is_no_process_of_the_job(tmp_path: Path, command: str) -> None:
    killed = "run.sh: line 160: 138253 {:23} {}\n"
    assert roots(tmp_path, killed.format("Killed", command) + killed.format("Terminated", command)) == []
    assert roots(tmp_path, killed.format("Killed", "python train.py")) == [("process/killed-by-oom", ())]


def test_an_error_that_a_warning_only_names_has_not_happened(tmp_path: Path) -> None:
    may = (
        "WARNING 11-28 19:08:15 [system_utils.py:222] Found ulimit of 1024 and failed to automatically increase. This "
    )
    named = f"{may}can cause fd limit errors like `OSError: [Errno 24] Too many open files`. Consider ulimit -n\n"
    assert roots(tmp_path, named) == []
    assert roots(tmp_path, named + "OSError: [Errno 24] Too many open files\n") == [("host/open-files-limit", ())]
    told = "OSError: [Errno 24] Too many open files: '/data/x', which can cause lost samples\n"
    assert roots(tmp_path, told) == [("host/open-files-limit", ())]


def test_deepspeed_was_interrupted(tmp_path: Path) -> None:
    """sigkill_handler() in deepspeed/launcher/launch.py ends the ranks first, then names the signal."""
    killed = "[2026-02-20 20:27:13,107] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 2606346\n"
    told = "[2026-02-20 20:27:14,902] [INFO] [launch.py:328:sigkill_handler] Main process received {}, exiting\n"
    assert judged(tmp_path, killed + told.format("SIGINT")).candidates[0].check == "process/terminated"
    assert roots(tmp_path, killed + told.format("SIGTERM")) == [("process/terminated", ())]


def test_an_engine_that_died_without_a_word(tmp_path: Path) -> None:
    """MPClient of vllm/v1/engine/core_client.py sees its engine end, and only refers to "above" then."""
    died = "ERROR 04-27 18:09:47 [core_client.py:600] Engine core proc DP0 died unexpectedly, shutting down client.\n"
    refers = raised("", "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace.")
    first, *_ = judged(tmp_path, died + refers).candidates
    assert (first.check, "dmesg" in first.command) == ("process/killed-by-oom", True)
    assert roots(tmp_path, raised("", "KeyError: 'layer'") + died + refers) == [("process/exception", ())]


@pytest.mark.parametrize("who", ["Worker proc VllmWorker-1", "RayWorkerProc rank=[3]"])
def test_a_worker_of_an_engine_that_died_without_a_word(tmp_path: Path, who: str) -> None:
    """Whatever the engine still logs, its monitor has reported an end; an error of the worker is its cause."""
    died = f"ERROR 07-04 17:35:16 [multiproc_executor.py:140] {who} died unexpectedly, shutting down executor.\n"
    waits = "DEBUG 07-04 17:36:10 [shm_broadcast.py:456] No available shared memory broadcast block found in 60 s.\n"

    waits = (
        "DEBUG 07-04 17:36:10 [shm_broadcast.py:456] No available shared memory broadcast block found in 60 second.\n"
    )
    checks = {candidate.check for candidate in judged(tmp_path, died + waits * 3).candidates}
    assert checks == {"process/crashed", "process/killed-by-oom"}
    assert roots(tmp_path, raised("", "KeyError: 'layer'") + died + waits) == [("process/exception", ())]
    stopped = "INFO:     Shutting down\n" + died + "INFO:     Application shutdown complete.\n"
    assert (judged(tmp_path, stopped).candidates, judged(tmp_path, died + stopped).candidates != ()) == ((), True)


def test_the_number_of_the_cancelled_job_is_in_the_next_command(tmp_path: Path) -> None:
    (candidate,) = judged(
        tmp_path, "slurmstepd: error: *** JOB 5930 ON n11 CANCELLED AT 2026-12-22T15:50:04 ***\n"
    ).candidates
    assert candidate.command.startswith("sacct -j 5930 ")


def test_code_that_torch_compile_wrote_is_not_the_users(tmp_path: Path) -> None:
    """The text of the error is on the next line, and is shown with it."""
    text = raised("", "RuntimeError:\nsizes differ: 4 and 5").replace(
        "    step()\n", '    step()\n  File "/tmp/torchinductor_u/rw/crw3.py", line 188, in call\n    run(x)\n'
    )
    (root,) = judged(tmp_path, text).findings
    assert "train.py:8" in root.summary and "sizes differ" in root.evidence[0] and "crw3.py:188" in root.evidence[1]


@pytest.mark.parametrize(
    ("later", "files", "root"),
    [
        ("22:24:26", 1, ("process/exception", (1,))),
        ("22:23:48", 1, ("gpu/out-of-memory", (0,))),
        ("22:24:26", 2, ("gpu/out-of-memory", (0,))),
        ("22:26:26", 2, ("process/exception", (1,))),
    ],
)
def test_a_failure_that_is_clearly_earlier_is_the_root_whatever_its_kind(
    tmp_path: Path, later: str, files: int, root: tuple[str, tuple[int, ...]]
) -> None:
    """The clocks of two logs may differ by two minutes."""
    memory = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    errors = [("22:23:46", raised("[rank1]: ", "KeyError: 'lr'")), (later, raised("[rank0]: ", memory))]
    texts = ["".join(f"2026-05-20 {clock} {line}\n" for line in text.splitlines()) for clock, text in errors]
    assert roots(tmp_path, *(texts if files == 2 else ["".join(texts)])) == [root]


AT_WORK = "".join(f"step {number} loss 2.{number}\n" for number in range(20))
TICKS = "".join(f"tick {number}   kimg {number}.2   sec/tick 300.1\n" for number in range(20))
STARTED = 1767348000
SENT_BY_SCANCEL = "slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2025-01-10T15:27:25 ***\n"
INTERRUPTED = "[INFO] [launch.py:328:sigkill_handler] Main process received SIGINT, exiting\n"
ENDED_BY_IT = "[INFO] [launch.py:319:sigkill_handler] Killing subprocess 4711\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (AT_WORK + SENT_BY_SCANCEL, "process/killed-by-scheduler"),
        (TICKS + SENT_BY_SCANCEL, "process/killed-by-scheduler"),
        (AT_WORK + ENDED_BY_IT + INTERRUPTED, "process/terminated"),
        (
            AT_WORK + SENT_BY_SCANCEL + "Received 15 death signal, shutting down workers\n",
            "process/killed-by-scheduler",
        ),
        (SENT_BY_SCANCEL, ""),  # it may have hung at its start
        (f"{AT_WORK}[rank0]: RuntimeError: {CLOSED}\n{SENT_BY_SCANCEL}", ""),  # a peer was gone before
        (f"{AT_WORK}srun: error: n1: task 3: Exited with exit code 1\n{SENT_BY_SCANCEL}", ""),  # srun ended the step
        (f"{AT_WORK}srun: error: n1: task 0: Terminated\n{SENT_BY_SCANCEL}", ""),
    ],
)
def test_an_order_that_met_a_job_at_work_is_the_root(tmp_path: Path, text: str, told: str) -> None:
    """_handle_signal_container() of slurmstepd/req.c writes this line without DUE TO if a command ended the step."""
    assert [check for check, _ in roots(tmp_path, text)] == [told][: bool(told)]
    assert judged(tmp_path, text).verdict == ("fail" if told else "incomplete")


def at_work(every: float, times: int) -> str:
    """Return steps from 10:00 on, with a clock."""
    clocks = [strftime("%Y-%m-%d %H:%M:%S", gmtime(STARTED + every * number)) for number in range(times)]
    return "".join(f"{clock},000 - INFO - step {number}/900 loss 2.1\n" for number, clock in enumerate(clocks))


@pytest.mark.parametrize(
    ("text", "ordered", "hung"),
    [
        (at_work(8, 40), "12:20:00", True),
        (at_work(8, 40), "10:05:30", False),
        (at_work(8, 40), "12:05:13", False),  # the scheduler's clock may be of another zone
        (at_work(1000, 4), "12:20:00", False),
        (at_work(8, 2), "12:20:00", False),
        (at_work(8, 40) + "evaluating\n" * 20, "12:20:00", False),
        ('INFO: 10.0.0.7:4242 - "POST /generate HTTP/1.1" 200 OK\n' * 40, "12:20:00", False),  # an idle server
    ],
)
@pytest.mark.parametrize("limit", ["", " DUE TO TIME LIMIT"])
def test_a_job_that_hung_until_it_was_stopped(tmp_path: Path, text: str, ordered: str, limit: str, hung: bool) -> None:
    order = f"slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-01-02T{ordered}{limit} ***\n"
    found = judged(tmp_path, text + order)
    assert found.verdict == ("incomplete" if hung else "fail")
    assert ["hung" in one.title for one in found.candidates] == [True] * hung


@pytest.mark.parametrize(("steps", "check"), [(900, "process/killed-by-scheduler"), (60, "process/exception")])
def test_an_earlier_job_in_the_same_file_failed(tmp_path: Path, steps: int, check: str) -> None:
    """As of sbatch --open-mode=append; a few lines may be what the failed program had buffered."""
    text = raised("", "KeyError: 'norm_stats'") + "".join(f"step {number} loss 2.{number}\n" for number in range(steps))
    assert [found for found, _ in roots(tmp_path, text + SENT_BY_SCANCEL.replace("STEP 5.0", "JOB 5"))] == [check]


@pytest.mark.parametrize(("below", "first"), [("step 20 loss 1.9\n", False), ("step 19 loss 2.0\n", True), ("", True)])
def test_one_step_below_a_caught_error_and_then_another(tmp_path: Path, below: str, first: bool) -> None:
    """A higher counter shows that the program went on; a bar that is drawn again does not."""
    caught = raised("", "KeyError: 'token'").replace("<module>", "save")
    found = judged(tmp_path, AT_WORK + caught + below + raised("", "ValueError: no batch"))
    assert ("KeyError" in found.findings[0].summary) is first


@pytest.mark.parametrize(("between", "helper"), [(40, True), (3, False)])
@pytest.mark.parametrize(
    "rejected",
    ["prepare.py: error: the following arguments are required: --out", "job.sh: line 30: python: command not found"],
)
def test_a_helper_that_is_rejected_or_missing_above_a_program_that_fails(
    tmp_path: Path, rejected: str, between: int, helper: bool
) -> None:
    """Who runs a program may raise right below its rejection, because of that."""
    loading = "".join(f"loading part {number} of the data\n" for number in range(between))
    found = judged(tmp_path, f"{rejected}\n{loading}" + raised("", "KeyError: 'lr'"))
    assert ("KeyError" in found.findings[0].summary) is helper


@pytest.mark.parametrize("crash", ["first", "later"])
def test_a_crash_after_another_rank_has_died(tmp_path: Path, crash: str) -> None:
    """What loses its peer may crash in its clean-up; a crash above the exception is explained by nothing."""
    died = raised(
        "gpu01: [rank0]: ",
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:230, unhandled cuda error, NCCL version 2.27",
    ).replace("line 8, in main", "line 8, in <module>")
    end = "gpu02: [2026-03-24 13:17:05,000] [ERROR] [launch.py:325:sigkill_handler] ['python', 'train.py'] exits with "
    end += "return code = -11\n"
    found = judged(tmp_path, end + died if crash == "first" else died + end)
    assert found.verdict == ("fail" if crash == "first" else "incomplete")
    shown = found.findings if crash == "first" else found.candidates
    assert shown[0].check == ("process/crashed" if crash == "first" else "nccl/init-failed")


def test_a_launcher_of_all_nodes_started_the_program_again(tmp_path: Path) -> None:
    """DeepSpeed's launcher exists once: what stood above its next start is of a job that has ended, well or not."""
    start = (
        "[2026-03-24 11:43:01,082] [INFO] [runner.py:630:main] cmd = pdsh -S -f 1024 -w gpu01,gpu02 cd /x; python -u "
    )
    start += "-m deepspeed.launcher.launch --world_info=e30= --node_rank=%n train.py\n"
    lost = "".join(
        f"gpu0{node}: [rank{node}]:[W324 13:16:48.464050259 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl("
        "fd=138, addr=[::]:58239, remote=[fdff:ffff::]:43445): Connection reset by peer\n"
        for node in (1, 2)
    )
    died = "".join(raised(f"gpu0{node}: [rank{node}]: ", "KeyError: 'x'") for node in (1, 2))
    found = judged(tmp_path, start + lost + start + died)
    assert [one.check for one in found.findings] == ["process/exception"]
    assert "an earlier try is not judged" in "".join(found.notes)


LOST = (
    "W0101 10:00:00.1 4711 torch/distributed/elastic/rendezvous/dynamic_rendezvous.py:1333] The node 'n2_4711_0' has "
    "failed to send a keep-alive heartbeat to the rendezvous 'x' due to an error of type Rendezvous{kind}Error.\n"
)
FRAMES = (
    "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x80 (0x7fe52297eeb0 in /v/torch/lib/libc10.so)\n"
    "frame #4: c10d::TCPStore::check(std::vector<std::string> const&) + 0x31e (0x7fe50b81a1be in /v/libtorch_cpu.so)\n"
    "frame #5: c10d::ProcessGroupNCCL::HeartbeatMonitor::runLoop() + 0x398 (0x7fe4cd9340c8 in /v/libtorch_cuda.so)\n"
)


@pytest.mark.parametrize("kind", ["Connection", "Timeout"])
def test_whoever_had_joined_knew_the_address_of_the_store(tmp_path: Path, kind: str) -> None:
    """The heartbeats of an agent begin when it has joined."""
    (only,) = judged(tmp_path, LOST.format(kind=kind)).candidates
    assert only.check == "process/rank0-died"


def test_frames_of_a_call_to_the_store(tmp_path: Path) -> None:
    """torch prints them below a warning, too; a rank that leaves last loses the store, and nothing has failed."""
    assert "process/rank0-died" in [one.check for one in judged(tmp_path, FRAMES).candidates]
    left = (
        "[rank0]:[W1 ProcessGroupNCCL.cpp:1538] Warning: WARNING: destroy_process_group() was not called before exit\n"
    )
    lost = "[rank0]:[W1 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=7): Failed to recv, got 0 bytes\n"
    assert judged(tmp_path, left.replace("exit", "program exit") + lost + FRAMES).candidates == ()


def test_a_listener_that_wants_any_port_finds_none(tmp_path: Path) -> None:
    """bind(2): EADDRINUSE of port 0 means that no port of the ephemeral range is free."""
    taken = raised("", "OSError: [Errno 98] Address already in use")
    assert roots(tmp_path, taken.replace("step()", 's.bind(("", 0))')) == [("host/ports-exhaustible", ())]
    assert roots(tmp_path, taken.replace("step()", "sock.bind((host, 0))")) == [("host/ports-exhaustible", ())]
    assert roots(tmp_path, taken.replace("step()", 's.bind(("", 8000))')) == [("network/port-in-use", ())]
    assert roots(tmp_path, taken) == [("network/port-in-use", ())]


def test_a_head_node_that_starts_later(tmp_path: Path) -> None:
    """`ray start --address` in a loop: Ray's warning is over when the node has joined."""
    late = (
        "[2026-06-15 09:50:57,864 W 41 41] rpc_client.h:153: Failed to connect to GCS at address 10.0.0.5:6379 within "
        "5 seconds.\n[2026-06-15 09:51:27,868 W 41 41] gcs_client.cc:182: Failed to get cluster ID from GCS server: "
        "TimedOut: Timed out while waiting for GCS to become available.\n"
    )
    assert [one.check for one in judged(tmp_path, late).candidates] == ["network/engine-server-unreachable"]
    joined = judged(tmp_path, late + "2026-06-15 09:52:03,296\tSUCC scripts.py:959 -- Ray runtime started.\n")
    assert (joined.verdict, joined.candidates) == ("warn", ())


def test_a_driver_without_a_node_of_its_own(tmp_path: Path) -> None:
    """It looks for the files of its host's node, which may come; that of another host does not help."""
    looks = (
        "2026-03-19 14:58:49,126\tINFO worker.py:1654 -- Connecting to existing Ray cluster at address: 10.0.0.67:6\n"
        "2026-03-19 14:58:50,134\tINFO node.py:1084 -- Can't find a `node_ip_address.json` file from /tmp/ray/s_1. "
        "Have you started Ray instance using `ray start` or `ray.init`?\n"
    )
    assert [one.check for one in judged(tmp_path, looks).candidates] == ["launch/ray-node-missing"]
    found = judged(tmp_path, looks + "2026-03-19 14:58:53,190\tINFO worker.py:1821 -- Connected to Ray cluster.\n")
    assert (found.verdict, found.candidates) == ("warn", ())
    gave_up = "Can't find a `node_ip_address.json` file from /tmp/ray/session_1. for 60 seconds. A ray instance hasn't"
    assert roots(tmp_path, looks + raised("", f"ValueError: {gave_up} started.")) == [("launch/ray-node-missing", ())]


@pytest.mark.parametrize(
    "helper", ["job.sh: line 30: python: command not found\n", raised("", "ModuleNotFoundError: x")]
)
@pytest.mark.parametrize("labelled", [True, False])
def test_an_error_of_the_script_above_labelled_ranks(tmp_path: Path, helper: str, labelled: bool) -> None:
    """srun --label marks the lines of all ranks, so the others are of the script, which went on to start them."""
    label = "3: " if labelled else ""
    found = judged(tmp_path, helper + raised(label, "KeyError: 'lr'"))
    assert ("KeyError" in found.findings[0].summary) is labelled


def test_who_was_ended_after_another_died_is_the_last_candidate(tmp_path: Path) -> None:
    died = raised(
        "34: [rank34]: ", "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:93, invalid usage"
    )
    found = judged(tmp_path, f"{died}srun: error: n7: tasks 12,15: Killed\n")
    assert [one.check for one in found.candidates] == ["nccl/init-failed", "process/killed-by-oom"]
