"""What torchrun says of all ranks of a node together: who ended first, who had left, who called something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.judge.logs.findings import judge_logs
from distdoctor.logs.collect import Collector
from tests.facts_builder import CHECKS
from tests.logs.judging import LOGS, judged, judged_files

TABLE = """Failures:
{others}Root Cause (first observed failure):
[0]:
  time      : 2026-01-31_12:00:01
  host      : n1
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: {pid})
  error_file: <N/A>
"""
ROW = """[{number}]:
  time      : 2026-01-31_12:00:01
  host      : n1
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: {pid})  (SIGTERM)
  error_file: <N/A>
"""
GONE = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:13488"
VAIN = "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation"
PIDS = (100, 101, 102)


def raised(rank: int, error: str, call: str = "all_reduce", line: int = 7) -> str:
    """A rank's traceback that ends in a collective."""
    lines = (
        "Traceback (most recent call last):",
        f'  File "/job/train.py", line {line}, in <module>',
        f"    dist.{call}(grad)",
        '  File "/env/torch/distributed/c10d_logger.py", line 83, in wrapper',
        "    return func(*args, **kwargs)",
        f'  File "/env/torch/distributed/distributed_c10d.py", line 3252, in {call}',
        "    work.wait()",
        f"RuntimeError: {error}",
    )
    return "".join(f"[rank{rank}]: {line}\n" for line in lines)


def ended(first: int, code: int, *others: int, signalled: tuple[int, ...] | None = None) -> str:
    """What torchrun says then: which rank ended ``first``, which ``others`` are in its table, whom it sent a signal."""
    sent = "".join(
        f"W0131 12:00:01.000000 9 torch/distributed/elastic/multiprocessing/api.py:900] Sending process {PIDS[rank]} "
        "closing signal SIGTERM\n"
        for rank in (others if signalled is None else signalled)
    )
    rows = "".join(
        ROW.format(number=number, rank=rank, code=-15, pid=PIDS[rank]) for number, rank in enumerate(others, start=1)
    )
    return sent + TABLE.format(others=rows, rank=first, code=code, pid=PIDS[first])


def said(tmp_path: Path, text: str) -> list[tuple[str, tuple[int, ...], tuple[str, ...]]]:
    """The roots: check, ranks, hosts."""
    found = judged(tmp_path, text).findings
    return [(one.check, one.ranks, one.nodes) for one in found if one.because_of is None]


def test_a_rank_between_those_of_the_table_had_left(tmp_path: Path) -> None:
    text = raised(0, GONE) + raised(2, GONE) + ended(2, 1, 0)
    assert said(tmp_path, text) == [("process/peer-exited-early", (1,), ("n1",))]


def test_local_ranks_are_ranks_where_there_is_one_node(tmp_path: Path) -> None:
    """As torchrun --tee labels them, where torch itself does not."""
    text = raised(0, GONE) + raised(2, GONE)
    text = text.replace("[rank0]: ", "[default0]:").replace("[rank2]: ", "[default2]:") + ended(2, 1, 0)
    assert said(tmp_path, text) == [("process/peer-exited-early", (1,), ("n1",))]


def test_the_last_rank_had_left_where_it_is_said_how_many_there_are(tmp_path: Path) -> None:
    text = raised(0, GONE) + raised(1, GONE) + ended(1, 1, 0)
    assert said(tmp_path, f"+ torchrun --nproc-per-node 3 train.py\n{text}")[0][:2] == (
        "process/peer-exited-early",
        (2,),
    )
    assert said(tmp_path, text) == []


def test_of_whom_torchrun_ended_itself_nothing_is_known(tmp_path: Path) -> None:
    """Rank 1 was sent a signal, and is not in the table: it may have ended well because of the signal."""
    text = raised(0, GONE) + raised(2, GONE) + ended(2, 1, 0, signalled=(0, 1))
    assert said(tmp_path, text) == []


@pytest.mark.parametrize(("begin", "end"), [("Failures", "exitcode"), ("Failures", "[2]:"), ("[1]:", "[2]:")])
def test_a_table_that_is_cut_off_says_nothing_of_those_that_are_not_in_it(tmp_path: Path, begin: str, end: str) -> None:
    table, lost = ended(2, 1, 0, 1), "".join(raised(rank, GONE) for rank in range(3))
    cut = table[: table.index(begin)] + table[table.index(end) :]
    assert said(tmp_path, lost + cut.replace("closing signal SIGTERM", "")) == []


def test_who_raises_something_else_is_what_it_was(tmp_path: Path) -> None:
    text = raised(0, GONE) + raised(2, "the loss is nan") + ended(2, 1, 0)
    assert [one[0] for one in said(tmp_path, text)] == ["process/exception"]


@pytest.mark.parametrize(("code", "root"), [(-6, [("process/crashed", (1,), ("n1",))]), (3, [])])
def test_the_one_after_which_torchrun_ended_the_others(
    tmp_path: Path, code: int, root: list[tuple[str, tuple[int, ...], tuple[str, ...]]]
) -> None:
    text = raised(0, GONE) + raised(2, GONE) + ended(1, code, 0, 2)
    assert said(tmp_path, text) == root
    if not root:
        first = judged(tmp_path, text).candidates[0]
        assert (first.check, first.next) == ("process/peer-died", "the log of rank 1")


def test_who_waits_in_vain_for_the_shortest_time_is_not_the_first_to_fail(tmp_path: Path) -> None:
    text = raised(0, VAIN) + raised(2, VAIN) + ended(1, -6, 0, 2)
    assert said(tmp_path, text) == []


def test_who_called_something_else(tmp_path: Path) -> None:
    text = raised(0, VAIN) + raised(1, VAIN, "broadcast", 9) + raised(2, VAIN) + ended(0, 1, 1, 2)
    assert said(tmp_path, text) == [("collective/mismatch", (1,), ("n1",))]
    assert "rank 1 on n1 called broadcast (train.py:9), the others all_reduce (train.py:7)" in str(
        judged(tmp_path, text)
    )


def test_of_two_that_called_different_collectives_neither_is_blamed_alone(tmp_path: Path) -> None:
    text = raised(0, VAIN) + raised(1, VAIN, "barrier") + ended(0, 1, 1)
    assert [one[:2] for one in said(tmp_path, text)] == [("collective/mismatch", (0, 1))]


def test_a_root_of_a_broadcast_is_ahead_of_those_that_wait_for_a_late_rank(tmp_path: Path) -> None:
    """Rank 2 waits for what a late rank 1 hands on; rank 0, the root, has gone on; rank 1 then finds them gone."""
    text = raised(0, VAIN) + raised(2, VAIN, "broadcast") + raised(1, GONE, "broadcast") + ended(0, 1, 1, 2)
    assert said(tmp_path, text) == []
    later = raised(0, VAIN) + raised(2, VAIN) + raised(1, GONE, "barrier") + ended(0, 1, 1, 2)
    assert [one[:2] for one in said(tmp_path, later)] == [("collective/mismatch", (1,))]


def test_of_whom_nothing_is_here_while_the_others_wait(tmp_path: Path) -> None:
    first = judged(tmp_path, raised(0, VAIN) + raised(2, VAIN) + ended(0, 1, 1, 2)).candidates[0]
    assert (first.check, first.next) == ("collective/rank-missing", "the log of rank 1")


def test_ranks_whose_logs_lie_apart(tmp_path: Path) -> None:
    files = {"agent.log": ended(0, 1, 1, 2), "0.log": raised(0, VAIN), "1.log": raised(1, VAIN, "barrier")}
    for name, text in {**files, "2.log": raised(2, VAIN)}.items():
        (tmp_path / name).write_text(text)
    found = judged_files(tmp_path)
    assert [(one.check, one.ranks) for one in found.findings if one.because_of is None] == [
        ("collective/mismatch", (1,))
    ]


def test_a_rank_that_had_left_where_the_logs_lie_apart(tmp_path: Path) -> None:
    for name, text in {"agent.log": ended(2, 1, 0), "0.log": raised(0, GONE), "2.log": raised(2, GONE)}.items():
        (tmp_path / name).write_text(text)
    found = judged_files(tmp_path)
    assert [(one.check, one.ranks) for one in found.findings if not one.because_of] == [
        ("process/peer-exited-early", (1,))
    ]


def test_a_rank_of_another_node_that_ended_without_a_word(tmp_path: Path) -> None:
    there = ended(1, 3).replace("local_rank: 1", "local_rank: 0").replace("host      : n1", "host      : n2")
    files = {"n1.log": raised(0, GONE) + ended(0, 1), "n2.log": there}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    first = judged_files(tmp_path).candidates[0]
    assert (first.check, first.next) == ("process/peer-died", "the log of rank 1")
    assert "rank 1 on n2 ended first, with code 3; rank 0 lost it" in first.why


@pytest.mark.parametrize(
    ("launch", "check"),
    [
        ("$ torchrun --nproc-per-node 2 train.py\n", "process/peer-died"),
        ("$ torchrun --standalone --nproc-per-node=2 train.py\n", "process/peer-died"),
        ("$ torchrun --nnodes 2 --nproc-per-node 2 train.py\n", None),
        ("", None),
    ],
)
def test_a_rank_that_ended_itself_on_the_only_node(tmp_path: Path, launch: str, check: str | None) -> None:
    """Where the job may have another node, a rank there may have ended before it."""
    found = judged(tmp_path, launch + raised(0, GONE) + ended(1, 3, 0))
    assert [(one.check, one.ranks) for one in found.findings if not one.because_of] == (
        [(check, (1,))] if check else []
    )
    assert check is None or "ended itself" in found.findings[0].summary


@pytest.mark.parametrize("flags", [(), ("--nnodes=1", "--nproc-per-node=2")])
def test_a_plan_of_a_job_is_no_launcher_of_nodes(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """srun's tasks are ranks where no torchrun is seen, whatever ``run`` knows of the job that it started."""
    (tmp_path / "job.log").write_text("srun: error: n2: tasks 1,3: Segmentation fault\n")
    collector = Collector(LOGS)
    collector.launched(flags)
    (finding,) = judge_logs(collector.collect([tmp_path]).logs, CHECKS).findings
    assert (finding.check, finding.ranks) == ("process/crashed", (1, 3))


def test_who_has_no_gradients_to_wait_for(tmp_path: Path) -> None:
    own = '  File "/job/train.py", line 5, in step\n    loss.backward()\n'
    engine = '  File "/env/torch/autograd/graph.py", line 979, in _engine_run_backward\n'
    lines = f"Traceback (most recent call last):\n{own}{engine}RuntimeError: {VAIN}".splitlines()
    backward = ["".join(f"[rank{rank}]: {line}\n" for line in lines) for rank in (0, 2)]
    text = backward[0] + raised(1, VAIN, "barrier") + backward[1] + ended(1, 1, 0, 2)
    assert [one[:2] for one in said(tmp_path, text)] == [("collective/mismatch", (1,))]
    assert "rank 1 on n1 called barrier (train.py:7), the others all_reduce in backward (train.py:5)" in str(
        judged(tmp_path, text)
    )


MPIRUN = "mpirun noticed that process rank 1 with PID 42 on node n2 exited on signal 6 (Aborted)."
FIRST = "The first process to do so was:\n\n  Process name: [[33133,1],1]\n  Exit code:    3"


@pytest.mark.parametrize("ended", ["srun: error: n2: task 1: Aborted (core dumped)", MPIRUN])
def test_who_was_aborted_by_the_account_of_srun_and_mpirun(tmp_path: Path, ended: str) -> None:
    assert said(tmp_path, f"{raised(0, GONE)}{ended}\n") == [("process/crashed", (1,), ("n2",))]


@pytest.mark.parametrize("ended", ["srun: error: n2: task 1: Exited with exit code 3", FIRST])
def test_who_ended_first_by_the_account_of_srun_and_mpirun(tmp_path: Path, ended: str) -> None:
    first = judged(tmp_path, f"{raised(0, GONE)}{ended}\n").candidates[0]
    assert (first.check, first.next) == ("process/peer-died", "the log of rank 1")


@pytest.mark.parametrize(
    "ended",
    [
        "srun: error: n2: tasks 1-2: Aborted (core dumped)",
        "srun: error: n1: task 0: Aborted (core dumped)",  # it says itself that another was gone
        "+ torchrun --nnodes 2 train.py\nsrun: error: n2: task 1: Aborted (core dumped)",  # a node's launcher
    ],
)
def test_who_ended_first_is_not_told_by_every_line_of_srun(tmp_path: Path, ended: str) -> None:
    assert said(tmp_path, f"{raised(0, GONE)}{ended}\n") == []


def test_a_launcher_that_prints_the_whole_command_before_how_it_ended(tmp_path: Path) -> None:
    command = ", ".join(f"'--option-{number}'" for number in range(200))
    line = f"[ERROR] [launch.py:341:sigkill_handler] [{command}] exits with return code = -11\n"
    (finding,) = judged(tmp_path, line).findings
    assert finding.check == "process/crashed" and finding.evidence[0].endswith("exits with return code = -11")
