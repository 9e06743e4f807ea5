"""A folder as a job leaves it: logs of several nodes, of several jobs, in parts."""

from __future__ import annotations

import gzip
import pickle
import struct
from pathlib import Path

import pytest

from distdoctor.judge.logs.findings import LogJudgement
from tests.logs.judging import CLOSED, judged_files, raised

OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
IN_USE = "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
IN_USE += "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
STEPS = "".join(f"step {number} loss 2.{number}\n" for number in range(30))


def judged_folder(folder: Path, **logs: str) -> LogJudgement:
    """``__`` in a name is a dot, what ends with ``__gz`` is compressed."""
    for name, text in logs.items():
        file = folder / name.replace("__", ".")
        file.write_bytes(gzip.compress(text.encode()) if name.endswith("__gz") else text.encode())
    return judged_files(folder)


def roots(found: LogJudgement) -> list[str]:
    return [finding.id for finding in found.findings if finding.because_of is None]


def test_what_one_job_shows_is_no_reason_for_what_another_shows(tmp_path: Path) -> None:
    killed = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=101.0. Some of the step tasks have been OOM Killed."
    )
    (tmp_path / "slurm-101.out").write_text(f"{STEPS}{killed}\n")
    found = judged_folder(tmp_path, **{"slurm-102__out": raised("[rank0]: ", IN_USE)})
    assert roots(found) == ["process/killed-by-oom", "network/port-in-use"]
    assert found.notes[0] == "logs of 2 jobs (101, 102), each judged by itself"


def test_two_jobs_that_failed_alike(tmp_path: Path) -> None:
    text = raised("[rank0]: ", IN_USE) + raised("[rank1]: ", CLOSED)
    found = judged_folder(tmp_path, run__o101=text, run__o102=text)
    assert roots(found) == ["network/port-in-use", "network/port-in-use@102"]
    follows = [finding.because_of for finding in found.findings if finding.check == "process/peer-died"]
    assert follows == ["network/port-in-use", "network/port-in-use@102"]


def test_one_job_in_several_files(tmp_path: Path) -> None:
    """Its parts by task, its output and errors, and logs of which no name says whose they are."""
    out, err = {"slurm-101_0__out": STEPS}, {"slurm-101_1__out": raised("[rank1]: ", OUT_OF_MEMORY)}
    found = judged_folder(tmp_path, **out, **err, rank0__log=raised("[rank0]: ", CLOSED))
    assert roots(found) == ["gpu/out-of-memory"] and not found.notes


def test_the_oldest_part_of_a_log_is_read_first(tmp_path: Path) -> None:
    first, second, last = (raised("[rank4]: ", OUT_OF_MEMORY), raised("[rank0]: ", CLOSED), raised("[rank0]: ", IN_USE))
    found = judged_folder(tmp_path, a__log=last, a__log__1=second, a__log__2__gz=STEPS + first)
    assert roots(found) == ["gpu/out-of-memory"]


def test_what_the_next_part_of_a_log_shows_to_be_survived(tmp_path: Path) -> None:
    found = judged_folder(tmp_path, a__log__1=STEPS + raised("", "ConnectionError: a tracker is away"), a__log=STEPS)
    assert found.verdict == "warn" and not found.findings
    found = judged_folder(tmp_path, a__log=raised("", "ValueError: no"))
    assert found.verdict == "fail"


def test_the_kernel_log_that_is_named_for_its_host(tmp_path: Path) -> None:
    lost = "[864000.1] NVRM: Xid (PCI:0000:4e:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    found = judged_folder(tmp_path, gpu07__dmesg=lost, job__out=raised("[rank0]: ", CLOSED))
    assert [(finding.check, finding.nodes) for finding in found.findings[:1]] == [("gpu/hardware", ("gpu07",))]


SHAPE = "RuntimeError: The size of tensor a (512) must match the size of tensor b (513)"
TABLE = """E0102 03:04:07.1 9 torch/distributed/elastic/x.py:8] failed (exitcode: 1) local_rank: 3 (pid: 9) of binary: p
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
Root Cause (first observed failure):
[0]:
  time      : 2025-01-02_03:04:06
  host      : {}
  rank      : 3 (local_rank: 3)
  exitcode  : 1 (pid: 9)
"""
START = "W0102 03:05:00.1 9 torch/distributed/run.py:766] Setting OMP_NUM_THREADS environment variable for each\n"


@pytest.mark.parametrize("between", [STEPS, START], ids=["steps", "a launcher"])
def test_what_ended_an_earlier_try_is_not_blamed(tmp_path: Path, between: str) -> None:
    text = START + raised("[rank0]: ", IN_USE) + TABLE.format("n0") + between + raised("[rank3]: ", OUT_OF_MEMORY)
    (tmp_path / "nohup.out").write_text(text + TABLE.format("n0"))
    found = judged_files(tmp_path)
    assert roots(found) == ["gpu/out-of-memory"] and found.findings[0].ranks == (3,)
    assert "network/port-in-use" not in [finding.check for finding in found.findings]
    assert "an earlier try" in found.notes[0] and "network/port-in-use" in found.notes[0]


def test_launchers_of_two_nodes_are_no_two_tries(tmp_path: Path) -> None:
    """One of them was started late, and its ranks found nobody."""
    late = START + raised("[rank8]: ", OUT_OF_MEMORY) + TABLE.format("n1")
    (tmp_path / "job.out").write_text(START + raised("[rank0]: ", IN_USE) + TABLE.format("n0") + late)
    assert roots(judged_files(tmp_path)) == ["network/port-in-use"]


def test_a_launcher_that_is_only_ended_is_no_try_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text(raised("[rank3]: ", OUT_OF_MEMORY) + TABLE.format("n0") + START + CLOSED)
    assert roots(judged_files(tmp_path)) == ["gpu/out-of-memory"]


@pytest.mark.parametrize("ends", ["", "Training finished\n"])
def test_only_the_last_of_torchruns_restarts_counts(tmp_path: Path, ends: str) -> None:
    for place, text in {"0/2": raised("[rank2]: ", OUT_OF_MEMORY), "1/2": STEPS + ends, "1/0": STEPS + ends}.items():
        folder = tmp_path / f"none_ab12/attempt_{place}"
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_text(text)
    found = judged_files(tmp_path)
    assert (found.verdict, roots(found)) == ("pass" if ends else "warn", [])
    assert "gpu/out-of-memory" in " ".join(found.notes)
    (tmp_path / "none_ab12/attempt_1/2/stderr.log").write_text(STEPS + raised("", SHAPE))
    found = judged_files(tmp_path)
    assert roots(found) == ["process/exception"] and found.findings[0].local_ranks == (2,)


def test_a_failure_that_a_part_of_a_log_went_on_after_is_over_though_another_came(tmp_path: Path) -> None:
    parts = {"a__log__2": raised("", IN_USE), "a__log__1": STEPS, "a__log": STEPS + raised("", SHAPE)}
    assert roots(judged_folder(tmp_path, **parts)) == ["process/exception"]


def test_what_lies_beside_the_logs_of_a_job(tmp_path: Path) -> None:
    """Checkpoints, events and settings are no logs, and none of them has to end with the end of the job."""
    events = b"".join(struct.pack("<QI", 24, 7) + bytes(range(number % 7, 28)) for number in range(300))
    beside = {
        "events.out.tfevents.1.node0": events,
        "optimizer.pkl": pickle.dumps({"state": [1, 2]}),
        "model.safetensors": struct.pack("<Q", 60) + b'{"w":{"dtype":"F32"}}' + b" " * 60,
        "args.json": b'{"lr": 1}',
        "metrics.csv": b"step,loss\n1,2\n",
    }
    for name, content in beside.items():
        (tmp_path / name).write_bytes(content)
    found = judged_folder(tmp_path, train__log=STEPS + "Training finished\n")
    assert found.verdict == "pass" and not any("tfevents" in note and "no failure" in note for note in found.notes)


@pytest.mark.parametrize(
    ("before", "host"),
    [
        ("[pod/train-worker-1/pytorch] ", "train-worker-1"),
        ("[pod/train-worker-1/pytorch] 2025-01-02T03:04:05.123456789Z ", "train-worker-1"),
        ("\x1b[36mtrain-worker-1\x1b[0m \x1b[96mpytorch\x1b[0m ", "train-worker-1"),
        ("trainer-1-1  | ", "trainer-1-1"),
        ("[1,mpirank:9,algo-2]<stderr>:", "algo-2"),
    ],
)
def test_whom_what_gathers_the_logs_of_containers_names(tmp_path: Path, before: str, host: str) -> None:
    (tmp_path / "all.log").write_text(raised(before, SHAPE))
    (finding,) = judged_files(tmp_path).findings
    assert (finding.check, finding.nodes) == ("process/exception", (host,)) and "raised at" in finding.evidence[-1]
    assert finding.ranks == ((9,) if "mpirank" in before else ())


@pytest.mark.parametrize("name", ["1/rank.5/stderr", "4711_5_log.err", "4711_12_5_log.err"])
def test_the_rank_in_the_name_of_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(raised("", SHAPE))
    assert judged_files(tmp_path).findings[0].ranks == (5,)


def labelled(task: int, text: str) -> str:
    return "".join(f"{task}: {line}\n" for line in text.splitlines())


def test_the_rank_that_mpiexec_puts_before_a_line(tmp_path: Path) -> None:
    """As MPICH's and Intel MPI's do with -l; what else stands in brackets is none."""
    text = "".join(f"[1] {line}\n" for line in raised("", SHAPE).splitlines())
    (tmp_path / "job.out").write_text("[0] step 1 loss 2.1\n" + text)
    (finding,) = judged_files(tmp_path).findings
    assert (finding.check, finding.ranks) == ("process/exception", (1,))


@pytest.mark.parametrize(
    ("program", "root"), [("python3", "process/killed-by-oom"), ("jupyter-lab", "process/exception")]
)
def test_what_the_kernel_killed_that_is_no_rank(tmp_path: Path, program: str, root: str) -> None:
    killed = f"[81234.7] Memory cgroup out of memory: Killed process 4711 ({program}) total-vm:9kB, anon-rss:6kB\n"
    logs = {"gpu07__dmesg": killed, "rank0__log": raised("[rank0]: ", CLOSED)}
    found = judged_folder(tmp_path, **logs, rank1__log=STEPS + raised("[rank1]: ", SHAPE))
    assert roots(found) == [root]
    (tmp_path / "rank1.log").unlink()
    assert roots(judged_folder(tmp_path, **logs)) == ["process/killed-by-oom"]


def test_whose_logs_are_not_there(tmp_path: Path) -> None:
    """Where the others tell only that somebody went away."""
    for number in (0, 1, 3):
        (tmp_path / f"node{number}.log").write_text(STEPS + raised(f"[rank{number}]: ", CLOSED))
    assert [note for note in judged_files(tmp_path).notes if "node2" in note and "node1" not in note]
    (tmp_path / "node2.log").write_text(STEPS + raised("[rank2]: ", CLOSED))
    assert not [note for note in judged_files(tmp_path).notes if note.startswith("missing: ")]
    for number in (1, 2, 3):
        (tmp_path / f"node{number}.log").replace(tmp_path / f"run-rank_{number:02}.err")
    (tmp_path / "node0.log").unlink()
    assert [note for note in judged_files(tmp_path).notes if "missing: rank_00; get it too (3 logs" in note]
