"""Outputs of tools beside a job's logs: ncclras, nvidia-smi -q, NCCL's Inspector."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hang.test_ras import LEFT_BEHIND, sections
from tests.logs.judging import judged, judged_files, roots

INCOMPLETE = """#{group}-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 5 -- GPU 1 managed by process 4711 on node 10.0.0.2

"""
TIMEOUT = (
    "[rank0]:[E1103 10:00:00.1 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=11, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600052 milliseconds "
    "before timing out.\n"
)


@pytest.mark.parametrize(
    ("text", "check", "following"),
    [
        (sections(warnings=LEFT_BEHIND), "collective/rank-missing", "the log of rank 3"),
        (sections(errors=INCOMPLETE.format(group=0)), "process/peer-died", "the log of rank 5"),
        (sections(errors=INCOMPLETE.format(group=1)), "process/peer-died", "the logs of the other ranks"),  # smaller
    ],
)
def test_the_rank_that_ras_names(tmp_path: Path, text: str, check: str, following: str) -> None:
    text = text.replace("RUNNING", "RUNNING  OK\n    1         4         2         1         2         8   RUNNING", 1)
    first = judged(tmp_path, text).candidates[0]
    assert first.check == check and first.next.startswith(following)


TRACED = """{head}
internal record id: 4
group info: 0:default_pg
collective: nccl:all_reduce
{body}
input sizes: [[4]]
output sizes: [[4]]
world size: 4
expected ranks: {{0, 1, 2, 3}}
collective state: scheduled
collective stack trace:
 main at /home/u/train.py:12
"""
MISSING = "Not all ranks joining collective, sequence number: 5", "missing ranks: {1, 3}"
HAS_ERRORS = "Collective sequence number: 5 has errors"
CULPRIT = "error msg: Culprit rank 2; Error type: {kind}, Expected collective type: 'x' does not match found collective"
ALL_TO_ALL = "Input/output mismatch in the collective sequence number: 5", "total input numel: 4\ntotal output numel: 5"


@pytest.mark.parametrize(
    ("lines", "root"),
    [
        (MISSING, None),  # the server writes it at intervals, while the others may only be late
        ((HAS_ERRORS, CULPRIT.format(kind="COLLECTIVE_TYPE_MISMATCH")), ("collective/mismatch", (2,))),
        ((HAS_ERRORS, CULPRIT.format(kind="SIZE_OR_SYNTAX_MISMATCH")), ("collective/mismatch", (2,))),
        ((HAS_ERRORS, CULPRIT.format(kind="COLLECTIVE_STATE_MISMATCH")), None),
        (ALL_TO_ALL, ("collective/mismatch", ())),
    ],
)
def test_the_rank_that_torchfrtrace_names(tmp_path: Path, lines: tuple[str, str], root: object) -> None:
    found = roots(tmp_path, TRACED.format(head=lines[0], body=lines[1]))
    assert found == ([root] if root else [])


def test_the_rank_that_torchfrtrace_misses(tmp_path: Path) -> None:
    text = TRACED.format(head=MISSING[0], body=MISSING[1])
    assert judged(tmp_path, text).candidates[0].next == "the log of ranks 1, 3"
    assert judged(tmp_path, text + "step 6 loss 1.0\nstep 7 loss 0.9\nTraining completed\n").verdict == "pass"


SMI = """
==============NVSMI LOG==============

Timestamp                                 : Mon Nov  3 10:00:00 2025
Attached GPUs                             : 1
GPU 00000000:1B:00.0
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    ECC Errors
        Volatile
            SRAM Uncorrectable Parity     : 0
            DRAM Uncorrectable            : {volatile}
        Aggregate
            DRAM Uncorrectable            : 2
    Remapped Rows
        Pending                           : {pending}
        Remapping Failure Occurred        : {failed}
    Fabric
        State                             : {state}
        Status                            : {status}
"""
WELL = {"volatile": "0", "pending": "No", "failed": "No", "state": "Completed", "status": "Success"}
NONE = {"state": "N/A", "status": "N/A"}


@pytest.mark.parametrize(
    ("values", "checks"),
    [
        (WELL, []),
        (NONE, []),
        ({"pending": "Yes"}, []),
        ({"volatile": "2"}, ["gpu/hardware"]),
        ({"failed": "Yes"}, ["gpu/hardware"]),
        ({"state": "In Progress", "status": "N/A"}, ["gpu/fabric-manager-not-running"]),
        ({"status": "Insufficient Resources"}, ["gpu/fabric-manager-not-running"]),
    ],
)
@pytest.mark.parametrize("name", ["nvidia-smi.txt", "gpus.log"])
def test_what_nvidia_smi_shows_of_a_gpu(tmp_path: Path, name: str, values: dict[str, str], checks: list[str]) -> None:
    (tmp_path / name).write_text(SMI.format(**WELL | values))
    found = judged_files(tmp_path)
    assert [one.check for one in found.candidates] == checks
    assert all(f"{name}:" in one.why and "GPU 00000000:1B:00.0: " in one.why for one in found.candidates)


def test_a_job_that_ended_well_beside_a_gpu_with_old_errors(tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi.txt").write_text(SMI.format(**WELL | {"volatile": "2"}))
    (tmp_path / "job.log").write_text("step 1 loss 1.0\nstep 2 loss 0.9\nTraining completed successfully\n")
    assert judged_files(tmp_path).verdict == "pass"


def inspected(rank: int, number: int, kind: str = "AllReduce", ranks: int = 4) -> str:
    record = {
        "header": {"id": f"0x7f8c496ae9f66{ranks}", "rank": rank, "n_ranks": ranks, "nnodes": 1},
        "metadata": {"inspector_output_format_version": "v4.0", "hostname": "n1", "pid": 100 + rank},
        "coll_perf": {"coll": kind, "coll_sn": number, "coll_exec_time_us": 61974, "coll_busbw_gbs": 485.1},
    }
    return json.dumps(record, separators=(",", ":")) + "\n"


@pytest.mark.parametrize(
    ("last", "kind", "named"),
    [
        ((10, 10, 7, 10), "AllReduce", "the log of rank 2"),
        ((10, 10, 10, 10), "AllReduce", ""),
        ((10, 8, 8, 10), "AllReduce", ""),  # half of them: it is not known which are behind
        ((10, 10, 7, 10), "Broadcast", ""),  # its root does not wait
        ((10, 10, 7), "AllReduce", ""),  # the file of rank 3 is missing
    ],
)
def test_the_rank_whose_file_of_the_inspector_ends_first(
    tmp_path: Path, last: tuple[int, ...], kind: str, named: str
) -> None:
    for rank, number in enumerate(last):
        records = [inspected(rank, one, kind) for one in range(1, number + 1)]
        (tmp_path / f"n1-pid{100 + rank}.log").write_text("".join([*records, inspected(rank % 2, rank, kind, 2)]))
    assert judged_files(tmp_path).candidates == ()  # nothing shows that a job failed
    (tmp_path / "job.txt").write_text(TIMEOUT)
    first = judged_files(tmp_path).candidates[0]
    assert (first.next == named) is bool(named)
