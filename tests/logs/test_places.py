"""Which rank and which host a failure is put to, by what the whole log tells; what it does not tell is not guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import judged

KILLED = (
    "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 3 (pid: 77) of binary: py\n"
)
NCCL = "gpu07:40:41 [3] NCCL INFO Channel 00/02 :    0   1\n"
RAISED = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nKeyError: 3\n'
ROW = "  host      : gpu02\n  rank      : {} (local_rank: {})\n  exitcode  : 1 (pid: 101)\n  error_file: /tmp/e.json\n"


@pytest.mark.parametrize(
    ("told", "rank"),
    [
        ("torchrun --nnodes=1 --nproc_per_node=8 \\\n", 3),
        ("+ torchrun --standalone --nproc-per-node 8 train.py\n", 3),
        ("python -m torch.distributed.launch --nproc_per_node=8 train.py\n", 3),
        ("accelerate launch --num_machines 1 train.py\n", 3),
        ("[INFO] [launch.py:148:main] nnodes=2, num_local_procs=8, node_rank=1\n", 11),
        ("  local_ranks=[0, 1, 2, 3]\n  global_ranks=[4, 5, 6, 7]\n", 7),
        ("Failures:\n[0]:\n  time      : 2026\n" + ROW.format(9, 1), 11),
        ("n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0\n", 3),
        ("torchrun --nproc_per_node=8 \\\n    --nnodes=2 train.py\n", None),
        ("torchrun --nnodes 1:4 --nproc_per_node=8 train.py\n", None),
        ("torchrun --nnodes=$NODES --nproc_per_node=8 train.py\n", None),
        ("torchrun --nnodes=1 --nproc_per_node=4 a.py\ntorchrun --nnodes=2 --nproc_per_node=4 b.py\n", None),
        ("", None),
    ],
)
def test_the_rank_of_a_local_rank(tmp_path: Path, told: str, rank: int | None) -> None:
    root = judged(tmp_path, told + KILLED).findings[0]
    assert root.check == "process/killed-by-oom"
    assert (root.ranks, root.local_ranks) == (((rank,), ()) if rank is not None else ((), (3,)))


@pytest.mark.parametrize(
    ("told", "host"),
    [
        (NCCL, "gpu07"),
        ("(base) user@gpu07:~/job$ python train.py\n", "gpu07"),
        ("[root@gpu07 job]# torchrun --nproc_per_node=8 train.py\n", "gpu07"),
        ('(Worker pid=9, ip=10.0.0.7)   File "a.py", line 1, in f\n', "10.0.0.7"),
        (NCCL + NCCL.replace("gpu07", "gpu08"), None),
        (NCCL + "+ torchrun --nnodes=2 --nproc_per_node=8 train.py\n", None),
        (NCCL + "  min_nodes        : 2\n  max_nodes        : 2\n", None),
        (NCCL + "  min_nodes        : 1\n  max_nodes        : 1\n", "gpu07"),
        ("user@login1:~/job$ srun python train.py\n", None),
        ("stage-2: something\nstage-2: again\n", None),
    ],
)
def test_the_host_of_a_log_of_one_host(tmp_path: Path, told: str, host: str | None) -> None:
    root = judged(tmp_path, told + RAISED).findings[0]
    assert (root.check, root.nodes) == ("process/exception", (host,) if host else ())


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        ("srun: error: n1: tasks 1-3,7: Out Of Memory\n", (1, 2, 3, 7)),
        ("srun: error: n1: task 2: Segmentation fault (core dumped)\n", (2,)),
        (
            "srun: error: n1: tasks 1-3: Out Of Memory\nE 1 torch/distributed/elastic/agent/server/api.py:1] failed\n",
            (),
        ),
    ],
)
def test_tasks_are_ranks_where_no_launcher_of_nodes_speaks(tmp_path: Path, line: str, ranks: tuple[int, ...]) -> None:
    root = judged(tmp_path, line).findings[0]
    assert (root.ranks, root.nodes) == (ranks, ("n1",))


def test_an_error_that_a_row_of_the_table_tells(tmp_path: Path) -> None:
    """Torchrun prints what a rank has left in its error file below the rank's row."""
    error = (
        '  traceback : Traceback (most recent call last):\n    File "t.py", line 4, in main\n  ValueError: no data\n'
    )
    table = f"Root Cause (first observed failure):\n[0]:\n{ROW.format(9, 1)}{error}{'=' * 60}\n"
    root = judged(tmp_path, table).findings[0]
    assert (root.check, root.ranks, root.nodes) == ("process/exception", (9,), ("gpu02",))
    assert judged(tmp_path, f"{table}{RAISED.replace('KeyError: 3', 'ValueError: no data')}").findings[0].ranks == (9,)


def test_the_name_that_nccl_gives_before_an_address(tmp_path: Path) -> None:
    line = "10.0.0.3: n3:1:2 [0] transport/net_ib.cc:1038 NCCL WARN NET/IB : req 0/1 tag 0 peer 10.0.0.6<5> collective "
    assert judged(tmp_path, line + "mismatch error, local size 4 remote size 6\n").findings[0].nodes == ("n3",)


@pytest.mark.parametrize(
    "line", ["[n3:9:0:9] Caught signal 11 (Segmentation fault)", "> [n3:9  :0:9] Caught signal 11 ("]
)
def test_the_host_of_a_crash_that_ucx_tells(tmp_path: Path, line: str) -> None:
    root = judged(tmp_path, f"{line}\n").findings[0]
    assert (root.check, root.nodes) == ("process/crashed", ("n3",))


@pytest.mark.parametrize("name", ["[[25735,1],3]", "[prterun-n01-9911@1,3]"], ids=["fourth", "fifth version"])
def test_the_rank_that_mpirun_saw_end_first(tmp_path: Path, name: str) -> None:
    table = f"The first process to do so was:\n\n  Process name: {name}\n  Exit code:    1\n"
    assert judged(tmp_path, f"{RAISED}{table}").findings[0].ranks == (3,)


def test_two_pairs_of_ranks_are_four(tmp_path: Path) -> None:
    line = "Duplicate GPU detected : rank {} and rank 0 both on CUDA device f000\n"
    assert judged(tmp_path, line.format(3) + line.format(7)).findings[0].ranks == (0, 3, 7)


@pytest.mark.parametrize(
    ("prefix", "rank", "host"),
    [
        ("trainer/0 [1]:", 1, ()),  # torchx
        ("i.pretrain/0 [default1]:[rank1]: ", 1, ()),  # NeMo-Run
        ("2026-12-05 12:02:26 10.164.15.249 [0] ", None, ("10.164.15.249",)),  # torch_xla's xla_dist
        ("(4l0b_1:13 WorkerDict pid=20, ip=[2001:db8::53]) [rank1]: ", 1, ("[2001:db8::53]",)),  # Ray
        ("(worker1, rank=1, pid=31582, ip=10.0.0.7) ", None, ("10.0.0.7",)),  # SkyPilot, which counts nodes so
        ("slurmstepd-gpu12: error: tasks told: ", None, ("gpu12",)),
        ("python3.11: ", None, ()),  # a program
        ("FATAL rank=3 ", 3, ()),
        ("CRITICAL: ", None, ()),
        ("train.py:97: rank 2: ", 2, ()),
    ],
)
def test_what_launchers_put_before_a_line(tmp_path: Path, prefix: str, rank: int | None, host: tuple[str, ...]) -> None:
    text = "torchrun --nnodes=1 --nproc_per_node=8 train.py\n" if rank is not None else ""
    root = judged(tmp_path, f"{text}{prefix}RuntimeError: CUDA error: uncorrectable ECC error encountered\n").findings[
        0
    ]
    assert (root.check, root.ranks, root.nodes) == ("gpu/hardware", () if rank is None else (rank,), host)


def test_the_ranks_that_horovod_names_below_its_line(tmp_path: Path) -> None:
    told = (
        "[2021-02-02 21:19:07.345988: W horovod/common/stall_inspector.cc:105] One or more tensors were submitted to "
        "be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than "
        "60 seconds.\n%s ranks:\n%s1: [allreduce.grad_1, allreduce.grad_2 ...]\n%s3!: [allreduce.grad_1]\n"
        "[1,0]<stderr>:7\n"
    )
    for heading, prefix in (("Missing", ""), ("Stalled", "[1,0]<stderr>:")):
        found = judged(tmp_path, told % (heading, prefix, prefix))
        assert [(one.check, one.ranks) for one in found.reading.symptoms][-1] == ("collective/rank-missing", (1, 3))
        assert "1, 3" in found.candidates[0].why


def test_what_determined_puts_before_a_line(tmp_path: Path) -> None:
    cut = '<>        [2021-12-07 10:42:16] 6ed813d5 ||   File "/l/launch.py", line 722, in gloo_run_fn\n'
    assert judged(tmp_path, cut).verdict == "incomplete"
    said = "[2022-06-09T09:22:31.405192Z] 8de2ca81 || [rank3]: OSError: [Errno 28] No space left on device\n"
    assert judged(tmp_path, said).findings[0].ranks == (3,)


def test_what_ray_gives_no_address_is_not_of_the_host_whose_address_it_gives(tmp_path: Path) -> None:
    told = "(node-1 pid=8) RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
    found = judged(tmp_path, f"{told}(node-0 pid=9, ip=10.0.0.7) Traceback (most recent call last):\n").findings[0]
    assert (found.check, found.nodes) == ("gpu/hardware", ())


@pytest.mark.parametrize(("nodes", "checks"), [(2, ["gloo/loopback-address"]), (1, [])])
def test_a_loopback_address_between_several_nodes_is_the_cause(tmp_path: Path, nodes: int, checks: list[str]) -> None:
    refused = "RuntimeError: Gloo connectFullMesh failed with [pair.cc:144] SO_ERROR: Connection refused, "
    found = judged(tmp_path, f"torchrun --nnodes={nodes} --nproc-per-node=2 t.py\n{refused}remote=[127.0.0.1]:4123\n")
    assert [one.check for one in found.findings if one.because_of is None] == checks
    assert found.verdict == ("fail" if checks else "incomplete")


@pytest.mark.parametrize(("nodes", "verdict"), [(2, "fail"), (1, "incomplete")])
def test_nccl_that_looks_for_another_node_on_loopback_took_it(tmp_path: Path, nodes: int, verdict: str) -> None:
    refused = "n2:9:9 [0] NCCL WARN socketStartConnect: Connect to 127.0.0.1<4567> failed : Connection refused"
    found = judged(tmp_path, f"  min_nodes        : {nodes}\n  max_nodes        : {nodes}\n{refused}\n")
    assert found.verdict == verdict
    named = [*(one.check for one in found.findings), *(one.check for one in found.candidates)]
    assert "network/wrong-interface" in named
