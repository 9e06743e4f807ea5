"""Ends of processes as launchers report them: read into one record, in one module."""

from __future__ import annotations

import pytest

from distdoctor.judge.catalog import hazard
from distdoctor.logs.dialects import WORDINGS
from distdoctor.logs.dialects.dialect import Wording
from distdoctor.logs.scanner import KnownLine, Scanner, read
from distdoctor.model.facts.logs import ProcessExit
from distdoctor.model.log_line import Ended, Line
from tests.facts_builder import CHECKS

SCANNER = Scanner({check.id: check.log for check in CHECKS})


def exits_of(text: str) -> list[ProcessExit]:
    """The ends that a line reports."""
    found = [entry for _, _, known in SCANNER.lines(text.encode(), SCANNER.begin()) for entry in known]
    return read(found, text)[1]


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (
            "failed (exitcode: -9) local_rank: 3 (pid: 71) of binary: python",
            ProcessExit(code=-9, signal=9, launcher="torchrun", local_rank=3),
        ),
        ("  exitcode  : -11 (pid: 77)", ProcessExit(code=-11, signal=11, launcher="torchrun", pid=77)),
        ("  exitcode  : 1 (pid: 77)", ProcessExit(code=1, launcher="torchrun", pid=77)),
        ("Received 15 death signal, shutting down workers", ProcessExit(signal=15, reason="launcher signalled")),
        (
            "Received Signals.SIGHUP death signal, shutting down workers",
            ProcessExit(signal=1, reason="launcher signalled"),
        ),
        ("Sending process 42 closing signal SIGTERM", ProcessExit(signal=15, reason="sent by launcher", pid=42)),
        ("process 3 terminated with signal SIGSEGV", ProcessExit(signal=11, local_rank=3)),
        ("srun: error: n01: tasks 0-7: Killed", ProcessExit(host="n01", signal=9, launcher="srun", tasks="0-7")),
        (
            "srun: error: n01: task 3: Out Of Memory",
            ProcessExit(host="n01", reason="out of memory", launcher="srun", tasks="3"),
        ),
        (
            "mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 9 (Killed).",
            ProcessExit(rank=3, host="n1", signal=9, launcher="mpirun"),
        ),
        (
            "prterun noticed that process rank 3 with PID 0 on node n1 exited on signal 11 (Segmentation fault).",
            ProcessExit(rank=3, host="n1", signal=11, launcher="mpirun"),
        ),
        ("=   KILLED BY SIGNAL: 9 (Killed)", ProcessExit(signal=9)),
        ("=   EXIT CODE: 139", ProcessExit(code=139, signal=11)),
        (
            "x3006c0s1b1n0: rank 2 died from signal 7 and dumped core",
            ProcessExit(rank=2, host="x3006c0s1b1n0", signal=7, launcher="pals"),
        ),
        ("Exited by signal 11.", ProcessExit(signal=11)),
        ("TERM_RUNLIMIT: job killed after reaching LSF run time limit.", ProcessExit(reason="time limit")),
        ("=>> PBS: job killed: walltime 3612 exceeded limit 3600", ProcessExit(reason="time limit")),
        ("\t(0) Abnormal termination (signal 4)", ProcessExit(signal=4)),
        ("train.sh: Zeile 12: 48211 Getötet                python train.py", ProcessExit(signal=9, launcher="shell")),
        ("      Exit Code:    137", ProcessExit(code=137, signal=9, launcher="kubectl")),
        (
            "slurmstepd: error: *** STEP 7.0 ON n01 CANCELLED AT 2024-01-01T00:00:00 DUE TO TIME LIMIT ***",
            ProcessExit(host="n01", reason="time limit"),
        ),
        ("Process 1234 exits with return code = -9", ProcessExit(code=-9, signal=9, launcher="deepspeed")),
        ("Worker unexpectedly exits with a connection error code 2.", ProcessExit(reason="actor died")),
    ],
)
def test_one_record_whoever_reports_it(text: str, end: ProcessExit) -> None:
    assert end in exits_of(text)


@pytest.mark.parametrize(
    "text",
    [
        "Process 1234 exits successfully.",
        "step 9: loss 0.137, exit code path covered",
        "  exitcode  : 0x0",
        "Signal: strength 9",
    ],
)
def test_no_end(text: str) -> None:
    assert not exits_of(text)


@pytest.mark.parametrize(
    ("code", "number"), [(-9, 9), (137, 9), (143, 15), (141, None), (1, None), (255, None), (-1073741819, None)]
)
def test_the_signal_that_an_exit_code_stands_for(code: int, number: int | None) -> None:
    assert [end.signal for end in exits_of(f"exited with exit code {code}")] == [number]


@pytest.mark.parametrize("number", [4, 7, 9, 11])
def test_a_signal_is_classified_alike_whoever_reports_it(number: int) -> None:
    lines = (
        f"  exitcode  : -{number} (pid: 77)",
        f"mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal {number}",
        f"n1: rank 2 died from signal {number}",
        f"\t(0) Abnormal termination (signal {number})",
        f"Exited by signal {number}.",
        f"      Exit Code:    {128 + number}",
    )
    checks = [classified(line) for line in lines]
    assert checks[0] and all(one == checks[0] for one in checks)


def classified(text: str) -> set[tuple[str, str]]:
    """The checks for which a line shows how a process ended."""
    found = [entry for _, _, known in SCANNER.lines(text.encode(), SCANNER.begin()) for entry in known]
    return {
        (one.check, one.line.shows) for one in read(found, text)[0] if one.end is not None and one.line.shows == "end"
    }


def test_no_wording_of_a_launcher_stands_in_a_check() -> None:
    """But for what says nothing of an end: why srun cannot start a step, what a rank's own program writes."""
    own = {literal for check in CHECKS for line in check.log if line.ended is None for literal in line.literals}
    theirs = {literal for wording in WORDINGS for literal in wording.literals}
    assert own & theirs <= {"srun: error: ", "returned non-zero exit status"}


def test_every_reason_is_taken_by_a_check() -> None:
    taken = {reason for check in CHECKS for line in check.log if line.ended for reason in line.ended.reasons}
    assert {wording.reason for wording in WORDINGS} <= taken


@pytest.mark.parametrize("wording", WORDINGS, ids=lambda one: one.literals[0])
def test_no_expression_can_blow_up(wording: Wording) -> None:
    assert not hazard(wording.pattern) and not hazard(wording.unless)
    assert all(len(literal) >= 4 for literal in wording.literals)


def test_a_class_in_words() -> None:
    assert Ended(signals=(9,)).described() == "signal 9 (SIGKILL)"
    assert Ended(("time limit",)).described() == "time limit"
    assert Ended(failed=True, launchers=("kubectl",)).described() == "any exit code above 0, reported by kubectl"


def test_what_voids_a_line_voids_its_end() -> None:
    line = Line.of_end(Ended(failed=True), shows="symptom", unless="by ssh")
    assert KnownLine("a/b", line).takes(ProcessExit(code=255), "exit code 255")
    assert not KnownLine("a/b", line).takes(ProcessExit(code=255), "exit code 255 by ssh")
