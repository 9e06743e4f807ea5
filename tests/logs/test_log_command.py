"""The options of ``diagnose`` for logs: which ranks, since when, all that is known of them."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from distdoctor.cli.app import run
from distdoctor.cli.diagnose import judged, only_facts
from distdoctor.cli.options import LogFlags
from distdoctor.judge.logs.filters import ranks_of, span_of, time_of
from distdoctor.model.facts.files import read, write
from distdoctor.model.observer import Observer

ROOT = Path(__file__).resolve().parents[2]
OUT = "RuntimeError: CUDA out of memory. Tried to allocate 1 GiB"
CLOSED = (
    "RuntimeError: [/torch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.2]:302"
)
NOISE = "NCCL INFO NET/IB : No device found."
JOB = f"""\
[rank0]: 2026-01-01 10:00:00,000 INFO {NOISE}
[rank1]: 2026-01-01 10:00:01,000 INFO RuntimeError: Address already in use
[rank1]: 2026-01-01 11:30:00,000 ERROR {OUT}
[rank0]: 2026-01-01 11:30:01,000 ERROR {CLOSED}
"""


def status_and_report(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    status = run(["diagnose", "--json", *words])
    return status, json.loads(capsys.readouterr().out)


def checks(report: Any) -> list[str]:
    return [one["check"] for one in report["findings"]]


def test_of_one_rank_only_what_it_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "x.log"
    log.write_text(JOB)
    status, report = status_and_report(capsys, str(log), "--rank", "1")
    assert status == 1 and "process/peer-died" not in checks(report)
    status, report = status_and_report(capsys, str(log), "--rank", "0")
    assert (status, report["verdict"], checks(report)) == (3, "incomplete", [])
    status, report = status_and_report(capsys, str(log), "--rank", "5-7")
    assert (status, report["verdict"]) == (3, "incomplete")
    assert report["notes"][0] == "what other ranks said, or what names no rank, shows a failure: leave out --rank"


def test_what_is_ignored_is_set_aside_and_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "x.log"
    log.write_text(JOB)
    _, before = status_and_report(capsys, str(log))
    status, report = status_and_report(capsys, str(log), "--ignore", "network/port-*")
    assert checks(before)[0] == "network/port-in-use" and before["ignored"] == []
    assert (status, checks(report)[0]) == (1, "gpu/out-of-memory") and "network/port-in-use" not in checks(report)
    (aside,) = report["ignored"]
    assert (aside["check"], aside["ranks"]) == ("network/port-in-use", [1])
    assert "Address already in use" in aside["evidence"][0]


def test_of_one_rank_only_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(3):
        (tmp_path / f"rank{rank}.log").write_text(f"step {rank} loss 1\nstep 2 loss 1\n")
    _, report = status_and_report(capsys, str(tmp_path), "--rank", "1")
    (note,) = report["notes"]
    assert "rank1.log" in note


@pytest.mark.parametrize("since", ["2026-01-01 11:00", "2026-01-01T11:00:00", "01-01 11:00", "30m", "1h", "60s"])
@pytest.mark.parametrize("packed", [False, True])
def test_since(tmp_path: Path, capsys: pytest.CaptureFixture[str], since: str, packed: bool) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(gzip.compress(JOB.encode()) if packed else JOB.encode())
    status, report = status_and_report(capsys, str(log), "--since", since)
    assert (status, checks(report)[0]) == (1, "gpu/out-of-memory")
    assert "network/port-in-use" not in checks(report)
    assert status_and_report(capsys, str(log), "--since", "2h")[1]["findings"][0]["check"] == "network/port-in-use"


def test_since_takes_lines_without_a_time_by_the_one_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "x.log"
    early = "2026-01-01 10:00:00,000 begin\nRuntimeError: Address already in use\n"
    log.write_text(f"{early}2026-01-01 12:00:00,000 later\n{OUT}\n")
    assert checks(status_and_report(capsys, str(log), "--since", "2026-01-01 11:00")[1]) == ["gpu/out-of-memory"]
    log.write_text(f"{OUT}\n")  # no time at all
    assert checks(status_and_report(capsys, str(log), "--since", "2026-01-01 11:00")[1]) == ["gpu/out-of-memory"]
    log.write_text("E0101 10:00:00.000000 1 x.py:1] RuntimeError: Address already in use\nstep 1\n")
    assert checks(status_and_report(capsys, str(log), "--since", "2026-01-01 11:00")[1]) == []


def test_all_lines_that_are_known_with_noise_for_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "x.log"
    log.write_text(JOB)
    _, report = status_and_report(capsys, str(log), "-v")
    details = report["details"]
    shown = {(one["line"], one["shows"]) for one in details["lines"]}
    assert shown == {(1, "noise"), (2, "root cause"), (3, "cause"), (4, "symptom")}
    assert details["lines"][0]["why"]
    assert "lines" not in status_and_report(capsys, str(log))[1]["details"]
    run(["diagnose", "-v", str(log)])
    text = capsys.readouterr().out
    assert f"{log}:1: noise, " in text and "    why: " in text
    log.write_text(f"{JOB}{''.join(f'step {number} loss 1' + chr(10) for number in range(9))}")
    _, report = status_and_report(capsys, str(log), "-v")
    details = report["details"]
    assert {one["shows"] for one in details["lines"]} == {"noise"}
    assert details["lines"][-1]["why"] == "the job went on after it"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rank", "x"], "is no list of ranks"),
        (["--rank", "3-"], "is no list of ranks"),
        (["--rank", "0-99999999"], "is no list of ranks"),
        (["--since", "yesterday"], "neither a time"),
    ],
)
def test_what_cannot_be_meant(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    (tmp_path / "x.log").write_text(JOB)
    assert run(["diagnose", str(tmp_path / "x.log"), *words]) == 2
    assert said in capsys.readouterr().err


def test_ranks_spans_and_times() -> None:
    assert ranks_of("3") == {3} and ranks_of("0, 8-10") == {0, 8, 9, 10}
    assert (span_of("90s"), span_of("2h"), span_of("1d"), span_of("5"), span_of("x")) == (90, 7200, 86400, None, None)
    assert time_of("1972-01-02") == time_of("01-02 00:00") == time_of("1972-01-02T00:00:00Z")


def test_facts_and_a_log_of_one_job_are_one_judgement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the logs only show as a symptom of it follows from what the facts prove."""
    (facts,) = (ROOT / "tests/recorded/cases").glob("127-0-1-1-on-both.json.gz")
    log = tmp_path / "x.log"
    log.write_text(f"[rank1]: {CLOSED}\n")
    assert not only_facts([facts, log])
    saved = tmp_path / "facts"
    saved.mkdir()
    for one in read([facts]):
        write(saved, one, leads_node=True)
    alone = status_and_report(capsys, str(facts))[1]
    for given in (facts, saved):
        status, report = status_and_report(capsys, str(given), str(log))
        assert status == 1 and report["verdict"] == "fail" and report["candidates"] == []
        assert checks(report)[0] == checks(alone)[0]
        assert report["findings"][0]["nodes"] == alone["findings"][0]["nodes"]  # of facts; a log names none


@pytest.mark.parametrize(
    ("texts", "verdict", "said"),
    [
        (["step 1 loss 2\nstep 2 loss 1\n"], "warn", "it ends at line 2, last seen doing: step 2 loss 1"),
        (["NCCL INFO comm 0x1 rank 0 nranks 8 - Init START\n"], "warn", "it ends at line 1, last seen starting up: "),
        (["ab\n\n"], "warn", "it ends at line 2; no line near its end says what the rank was doing"),
        (["step 1 loss 2\ntraining finished\n"], "pass", ""),
        (["step 1 loss 2\ntraining finished\n", "step 1 loss 2\nstep 2 loss 1\n"], "warn", "it ends at line 2"),
        (["step 1 loss 2\nsaved checkpoint to ckpt/step_1\n"], "warn", "it ends at line 2"),
        (["step 1 loss 2\ntraining finished\n" + "step 2 loss 1\n" * 3], "warn", "it ends at line 5"),
        (["step 1 loss 2\nsaved the final model to out/\n"], "pass", ""),
    ],
    ids=["steps", "starting", "nothing", "finished", "one of two", "a checkpoint", "once more", "the final model"],
)
def test_no_failure_is_a_pass_only_at_the_end_of_the_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], texts: list[str], verdict: str, said: str
) -> None:
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.log").write_text(text)
    status, report = status_and_report(capsys, str(tmp_path))
    assert (status, report["verdict"], report["findings"]) == (0, verdict, [])
    assert said in "".join(report["notes"])


def test_an_empty_file_is_a_bad_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.log").touch()
    for given in (tmp_path / "x.log", tmp_path):
        assert run(["diagnose", str(given)]) == 2
        assert capsys.readouterr().err == f"distdoctor: {given}: empty\n"


@pytest.mark.parametrize(("lines", "said"), [(1, "2 GiB"), (2, "2 GiB (2 times)")])
def test_a_line_that_shows_a_thing_in_two_ways_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: int, said: str
) -> None:
    (tmp_path / "x.log").write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n" * lines)
    _, report = status_and_report(capsys, str(tmp_path / "x.log"))
    assert report["findings"][0]["evidence"][0].endswith(said)


def test_a_person_sees_which_file_is_read(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text(JOB)

    class Heard(Observer):
        def __init__(self) -> None:
            self.all: list[str] = []

        def waits(self, what: str, most: float | None = None) -> None:
            self.all.append(what)

    heard = Heard()
    judged([tmp_path], (), (), LogFlags(), whole=False, observer=heard)
    assert heard.all[:2] == [f"reading {n} of 2: {tmp_path / name}" for n, name in ((1, "a.log"), (2, "b.log"))]


def test_what_the_names_of_all_files_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What SLURM makes of ``--output train-%j-%N-%t.err``: ``nodeB-3`` is no host."""
    for node, rank in (("nodeA", 0), ("nodeA", 1), ("nodeB", 2), ("nodeB", 3)):
        text = OUT if rank == 3 else CLOSED
        (tmp_path / f"train-88123-{node}-{rank}.err").write_text(f"{text}\n")
    _, report = status_and_report(capsys, str(tmp_path))
    assert (report["findings"][0]["nodes"], report["findings"][0]["ranks"]) == (["nodeB"], [3])


def test_since_in_an_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with tarfile.open(tmp_path / "logs.tar.gz", "w:gz") as tar:
        one = tarfile.TarInfo("job/x.log")
        one.size = len(JOB.encode())
        tar.addfile(one, io.BytesIO(JOB.encode()))
    _, report = status_and_report(capsys, str(tmp_path / "logs.tar.gz"), "--since", "30m")
    assert checks(report)[0] == "gpu/out-of-memory" and "network/port-in-use" not in checks(report)
    assert "logs.tar.gz/job/x.log" in report["findings"][0]["evidence"][0]
