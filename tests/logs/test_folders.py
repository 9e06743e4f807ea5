"""A folder as a job leaves it: logs of several nodes, of several jobs, in parts."""

from __future__ import annotations

import gzip
from pathlib import Path

from distdoctor.judge.log_findings import LogJudgement
from tests.logs.test_first_failure import CLOSED, raised
from tests.logs.test_wordings import judged_files

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
