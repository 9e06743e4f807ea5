"""Tries of one job in one log: what ended an earlier one is not what ended the last."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import CLOSED, judged, judged_files, raised, roots

MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
NO_SAMPLES = "ValueError: num_samples should be a positive integer value, but got num_samples=0"
END = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"


def failed(launcher: int, local_rank: int = 1) -> str:
    return (
        f"E1102 10:02:12.725000 {launcher} torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) "
        f"local_rank: {local_rank} (pid: 4231) of binary: /opt/python\n"
    )


def test_a_launcher_that_starts_its_ranks_again(tmp_path: Path) -> None:
    """torchrun --max-restarts, where OMP_NUM_THREADS is set: nothing but the failures of its ranks tells the starts."""
    tries = (raised("[rank1]: ", MEMORY) + failed(41)) * 2
    last = raised("[rank3]: ", NO_SAMPLES) + failed(41, 3) + END
    assert roots(tmp_path, tries + last) == [("process/exception", (3,))]
    found = judged(tmp_path, tries + raised("[rank2]: ", CLOSED) + failed(41, 2) + END)
    assert (found.verdict, found.findings) == ("incomplete", ())
    assert "an earlier try" in " ".join(found.notes) and "gpu/out-of-memory" in " ".join(found.notes)


def test_the_same_failure_in_every_try(tmp_path: Path) -> None:
    assert roots(tmp_path, (raised("[rank1]: ", MEMORY) + failed(41)) * 3 + END) == [("gpu/out-of-memory", (1,))]


def test_launchers_of_several_containers_with_one_number(tmp_path: Path) -> None:
    """Each has told of its end: neither has started its ranks again."""
    first, second = raised("[rank1]: ", MEMORY) + failed(7), raised("[rank9]: ", NO_SAMPLES) + failed(7)
    assert roots(tmp_path, first + second + END + END) == [("gpu/out-of-memory", (1,))]
    last = raised("[rank8]: ", CLOSED) + failed(7) + raised("[rank9]: ", NO_SAMPLES) + failed(7)
    assert roots(tmp_path, first + second + last + END + END) == [("process/exception", (9,))]


def test_two_launchers_that_both_start_their_ranks_again(tmp_path: Path) -> None:
    first = raised("[rank1]: ", MEMORY) + failed(41) + raised("[rank8]: ", CLOSED) + failed(52)
    last = raised("[rank9]: ", NO_SAMPLES) + failed(52) + raised("[rank0]: ", CLOSED) + failed(41)
    assert roots(tmp_path, first + last + END + END) == [("process/exception", (9,))]


def test_launchers_in_a_log_whose_name_has_another_name_of_the_host(tmp_path: Path) -> None:
    """A script's loop around torchrun: the name of the file and the table call one host differently."""
    row = "Root Cause (first observed failure):\n[0]:\n  host      : gn01\n  rank      : 0 (local_rank: 0)\n"
    row += "  exitcode  : 1 (pid: 9)\n"
    steps = "".join(f"step {number} loss 2.{number}\n" for number in range(30))
    first = raised("[rank0]: ", "KeyError: 'lr'") + failed(41, 0) + END + row
    (tmp_path / "node0.log").write_text(first + steps + raised("[rank5]: ", MEMORY) + failed(52, 5) + END + row)
    found = judged_files(tmp_path).findings
    assert [(one.check, one.ranks) for one in found if one.because_of is None] == [("gpu/out-of-memory", (5,))]


def test_ranks_that_find_the_addresses_of_those_before_them(tmp_path: Path) -> None:
    """As torch 2.13 does with gloo and --max-restarts."""
    mesh = "RuntimeError: Gloo connectFullMesh failed with [x/gloo/transport/tcp/pair.cc:152] timed out connecting: "
    mesh += "SO_ERROR: Connection refused, remote=[127.0.0.1]:26516"
    found = judged(tmp_path, raised("[rank1]: ", MEMORY) + failed(41) + raised("", mesh) + failed(41, 0) + END)
    assert found.verdict == "incomplete" and "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in " ".join(found.notes)
    found = judged(tmp_path, raised("", mesh) + failed(41, 0) + END)
    assert "TORCH_DISABLE_SHARE_RDZV_TCP_STORE" not in " ".join(found.notes)


def test_a_job_that_was_queued_again_into_the_same_file(tmp_path: Path) -> None:
    """Steps below the end may be of its time of grace; lines that ranks write when they start are not."""
    taken = "slurmstepd: error: *** JOB 881 ON gn02 CANCELLED AT 2026-11-02T10:02:00 DUE TO PREEMPTION ***\n"
    again = raised("[rank6]: ", "RuntimeError: Missing key(s) in state_dict")
    assert roots(tmp_path, taken + "NCCL version 2.27.5+cuda12.9\n" + again) == [("process/exception", (6,))]
    grace = "".join(f"step {number} loss 2.5\n" for number in range(20))
    assert [check for check, _ in roots(tmp_path, taken + grace + again)] == ["process/killed-by-scheduler"]


C10D = "torchrun --nnodes={} --nproc-per-node 2 --rdzv-backend=c10d --rdzv-endpoint n0:29500 train.py"


@pytest.mark.parametrize(
    ("command", "check"),
    [
        (C10D.format(2), "process/exception"),
        (C10D.format("1"), "gpu/out-of-memory"),  # each node's launcher stands alone
        (C10D.format("1:2"), "gpu/out-of-memory"),  # a node may come later
        ("torchrun --nnodes=2 --master-addr n0 train.py", "gpu/out-of-memory"),  # ranks begin before all have joined
        ("python train.py", "gpu/out-of-memory"),
    ],
)
def test_a_trace_of_the_shell_shows_a_second_start_where_all_nodes_join_first(
    tmp_path: Path, command: str, check: str
) -> None:
    """No line below a failure then is from another node's shell under the same srun."""
    start = f"+ export LR=1\n+ {command}\n"
    text = start + raised("", MEMORY) + start + raised("", NO_SAMPLES)
    assert roots(tmp_path, text) == [(check, ())]
    together = start + start + raised("", MEMORY) + raised("", NO_SAMPLES)
    assert roots(tmp_path, together) == [("gpu/out-of-memory", ())]
