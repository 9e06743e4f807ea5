"""Of whom a line of a log tells: what stands before it, the host, the rank, the process."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.logs.attribution import of_file
from tests.logs.judging import CLOSED, TABLE, judged, raised, roots


def test_a_number_of_nodes_in_a_file_name_is_no_host(tmp_path: Path) -> None:
    assert of_file("logs/meg_gpt2_perf_n16-1999618.out").host is None
    assert of_file("logs/node16.log").host == "node16"
    assert of_file("logs/n16.log").host == "n16"
    assert of_file("logs/gpu-b.log").host == "gpu-b" and of_file("logs/gpu-usage.log").host is None


def test_the_tasks_of_srun_are_ranks_or_whole_nodes(tmp_path: Path) -> None:
    """A launcher of a node writes for all of its ranks: the number before the line is then not a rank's."""
    alone = raised("3: ", "KeyError: 'label'")
    assert roots(tmp_path, alone) == [("process/exception", (3,))]
    assert roots(tmp_path, raised("1: [rank2]: ", "KeyError: 'label'")) == [("process/exception", (2,))]
    other = raised("1: [rank9]: ", CLOSED)
    assert roots(tmp_path, other + raised("1: ", "KeyError: 'label'")) == [("process/exception", ())]


def test_a_process_of_spawn_is_named(tmp_path: Path) -> None:
    head = "torch.multiprocessing.spawn.ProcessRaisedException:\n\n-- Process 1 terminated with the following error:\n"
    found = judged(tmp_path, head + raised("", "KeyError: 'label'"))
    assert found.findings[0].summary == "Local rank 1 failed at train.py:8 with KeyError: 'label'."
    text = "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL\n"
    assert "(local rank 1)" in judged(tmp_path, text).findings[0].summary


@pytest.mark.parametrize("folder", ["no_5", "new_3", "nemo_2"])
def test_a_folder_is_no_host_for_its_name(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    found = judged(tmp_path / folder, raised("", "KeyError: 'label'"))
    assert found.findings[0].nodes == ()


def test_the_ranks_that_unused_parameters_name(tmp_path: Path) -> None:
    lines = (
        "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.\n"
        "Parameter indices which did not receive grad for rank 1: 0 1 2\n"
    )
    assert roots(tmp_path, lines) == [("collective/unused-parameters", (1,))]


@pytest.mark.parametrize(
    "prefix",
    [
        "[2025-01-30 18:11:34 TP10] ",
        "[2025-01-30 18:11:34 DP0 TP1 EP1] ",
        "(EngineCore_DP0 pid=7) ERROR 10-14 17:17:23 [core.py:700] ",
        "Fri Sep 25 16:52:53 2020[0]<stderr>:",
    ],
)
def test_what_servers_put_before_a_line(tmp_path: Path, prefix: str) -> None:
    found = judged(tmp_path, f"{prefix}starting\n{prefix}KeyError: 'lr'\n")
    assert found.findings[0].summary.endswith("KeyError: 'lr'.")


@pytest.mark.parametrize(
    ("line", "host"),
    [
        ("9b405963aa12:12:34 [1] include/alloc.h:125 NCCL WARN Cuda failure 2 'out of memory'", "9b405963aa12"),
        ("May 15 23:09:27 ubuntu-vm kernel: [  514.68] Out of memory: Killed process 156 (python3) x", "ubuntu-vm"),
        ("Aug 30 06:58:55.050705 node7 kernel: Out of memory: Killed process 156 (python3) x", "node7"),
        ("2026-08-31 12:27:50 [slave03:00956] Signal: Segmentation fault (11)", "slave03"),
        ("train.py: RuntimeError: CUDA out of memory. Tried to allocate 1 GiB", None),
    ],
)
def test_the_host_of_a_line(tmp_path: Path, line: str, host: str | None) -> None:
    found = judged(tmp_path, f"starting\n{line}\n")
    assert found.findings[0].nodes == ((host,) if host else ())


def test_whose_log_is_next_where_a_line_names_whom_it_waits_for(tmp_path: Path) -> None:
    found = judged(tmp_path, "Stalled ops: HorovodBroadcast_dense_0 [missing ranks: 1, 6]\n")
    assert found.candidates[0].next == "the log of ranks 1, 6"


def test_the_host_of_a_rank_that_failed_is_the_one_that_torchrun_names(tmp_path: Path) -> None:
    text = raised("[rank8]: ", "KeyError: 'lr'") + TABLE.format(code=1, told="x")
    assert judged(tmp_path, text).findings[0].nodes == ("gpu02",)


def test_the_node_that_failed_is_not_the_one_from_which_slurm_says_so(tmp_path: Path) -> None:
    found = judged(
        tmp_path,
        "srun: error: Node failure on n7\n"
        "slurmstepd: error: *** STEP 3.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE FAILURE ***\n",
    )
    assert found.findings[0].nodes == ("n7",)


def test_what_composer_tells_of_a_rank(tmp_path: Path) -> None:
    head, end = "----------Begin global rank 5 STDERR----------\n", "----------End global rank 5 STDERR----------\n"
    told = "Global rank 5 (PID 4006) exited with code 1\n" + head + raised("", "KeyError: 'label'") + end
    assert roots(tmp_path, told) == [("process/exception", (5,))]
    assert roots(tmp_path, head + end + raised("", "KeyError: 'label'")) == [("process/exception", ())]


def test_the_pod_of_an_account_of_kubectl(tmp_path: Path) -> None:
    account = "Name:             llm-worker-{}\nStatus:           Running\n    Last State:     Terminated\n"
    text = account.format(1) + "      Reason:       Error\n\n" + account.format(2) + "      Reason:       OOMKilled\n"
    found = judged(tmp_path, text).findings[0]
    assert (found.check, found.nodes) == ("process/killed-by-oom", ("llm-worker-2",))


def test_who_could_not_reach_an_address_did_not_pick_it(tmp_path: Path) -> None:
    line = "[rank3]: socketPollConnect: connect to 169.254.20.10<52597> returned Connection refused\n"
    found = judged(tmp_path, line).findings[0]
    assert (found.check, found.ranks, found.nodes) == ("network/wrong-interface", (), ())


@pytest.mark.parametrize(
    "line",
    [
        "[2026-03-02 10:31:08,001] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py', "
        "'--local_rank=3', '--deepspeed'] exits with return code = -9",
        "subprocess.CalledProcessError: Command '['/usr/bin/python', '-u', 'train.py', '--local_rank=3']' died with "
        "<Signals.SIGKILL: 9>.",
    ],
)
def test_the_command_that_a_launcher_tells_is_not_of_the_process_that_failed(tmp_path: Path, line: str) -> None:
    """It is the one that it has started last."""
    found = judged(tmp_path, f"step 1 loss 2.0\n{line}\n").findings[0]
    assert (found.check, found.ranks, found.local_ranks) == ("process/killed-by-oom", (), ())


@pytest.mark.parametrize(
    ("who", "rank"), [("[{0}] [rank{0}]: ", True), ("[trainer-{0}-1]:", False), ("[r={0}|1]: ", False)]
)
def test_labels_before_what_a_program_that_fails_writes(tmp_path: Path, who: str, rank: bool) -> None:
    """mpiexec -l before torch's own; what torchrun was told to write (TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE)."""
    closed = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [::]:1"
    found = judged(tmp_path, raised(who.format(5), "KeyError: 'lr'") + raised(who.format(0), closed)).findings[0]
    assert "KeyError: 'lr'" in found.summary and found.ranks == ((5,) if rank else ())


def test_a_level_in_brackets_is_no_label(tmp_path: Path) -> None:
    found = judged(tmp_path, "[WARNING]: ConnectionError: the tracker is away\nstep 1 loss 2.0\n")
    assert found.verdict == "warn" and not found.findings


@pytest.mark.parametrize(
    "line",
    [
        "application called MPI_Abort(MPI_COMM_WORLD, 1) - process 3",  # MPICH's
        "Abort(1) on node 3 (rank 3 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 1) - process 3",
        "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD",  # Open MPI's
    ],
)
def test_who_has_aborted_all_is_who_raised_what_nobody_caught(tmp_path: Path, line: str) -> None:
    """As mpi4py does behind a traceback."""
    own = raised("", "ValueError: operands could not be broadcast together")
    found = judged(tmp_path, f"{own}{line}\n").findings[0]
    assert (found.ranks, "ValueError" in found.summary) == ((3,), True)
    several = f"{own}{line}\n{line.replace('3', '5')}\n"  # of which it is, nothing tells
    assert roots(tmp_path, several) == [("process/exception", ())]
