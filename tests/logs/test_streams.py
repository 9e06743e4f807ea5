"""The two streams of a process in a file each, as torchrun's --redirects 3 leaves them: one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.judge.logs.findings import LogJudgement
from tests.logs.judging import CLOSED, TABLE, judged_files, raised

OUT = "".join(f"2026-01-02 10:00:{number:02} INFO: step {number} loss 2.{number}\n" for number in range(30))
DONE = OUT + "2026-01-02 10:00:31 INFO: Training finished\n"
WARNED = "/x/train.py:77: UserWarning: this is slow\n  model(x)\n"
CAUGHT = """Traceback (most recent call last):
  File "/x/train.py", line 34, in evaluate
    scores["rouge"]
KeyError: 'rouge'
"""


def of_ranks(folder: Path, out: str, *errors: str, console: str = "") -> LogJudgement:
    folder.mkdir(exist_ok=True)
    for rank, error in enumerate(errors):
        own = folder / f"logs/none_a1b2c3d4/attempt_0/{rank}"
        own.mkdir(parents=True)
        (own / "stdout.log").write_text(out)
        (own / "stderr.log").write_text(error)
    (folder / "console.log").write_text(console)
    return judged_files(folder)


def test_a_process_ends_with_one_of_its_streams(tmp_path: Path) -> None:
    found = of_ranks(tmp_path, DONE, WARNED, "", console=WARNED)
    assert (found.verdict, found.notes) == ("pass", ())


def test_a_rank_that_does_not_end_is_told(tmp_path: Path) -> None:
    found = of_ranks(tmp_path, OUT, WARNED, console=WARNED)
    assert found.verdict == "warn" and len(found.notes) == 3


def test_a_log_of_no_rank_that_is_in_mid_work_is_told(tmp_path: Path) -> None:
    found = of_ranks(tmp_path, DONE, "", console=OUT)
    assert found.verdict == "warn" and "console.log" in found.notes[0]


@pytest.mark.parametrize(("out", "verdict"), [(DONE, "warn"), (OUT, "incomplete")], ids=["ends well", "in mid-work"])
def test_what_a_program_caught_while_it_works_is_no_failure(tmp_path: Path, out: str, verdict: str) -> None:
    """Unless its other stream stops in mid-work: then it may have ended of that, and it cannot be told."""
    found = of_ranks(tmp_path, out, WARNED + CAUGHT, "")
    assert found.verdict == verdict and not found.findings and not found.candidates
    assert "stderr.log:6: KeyError: 'rouge': the program caught it" in found.notes[0]


@pytest.mark.parametrize(
    "error",
    [
        raised("", "KeyError: 'rouge'"),  # nobody caught it
        raised("[rank1]: ", "KeyError: 'rouge'"),
        "".join(f"[rank1]: {line}\n" for line in CAUGHT.splitlines()),  # torch's own excepthook
        f"Error executing job with overrides: []\n{CAUGHT}",  # of Hydra, which leaves frames out
        CAUGHT + raised("", "ValueError: 3"),
        CAUGHT + "\nDuring handling of the above exception, another exception occurred:\n\n" + raised("", "OSError: 3"),
        raised("", "KeyError: Caught KeyError in DataLoader worker process 0.\nOriginal " + CAUGHT.rstrip()),
    ],
)
def test_what_ended_a_program_is_one_also_beside_a_stream_that_ends_well(tmp_path: Path, error: str) -> None:
    assert of_ranks(tmp_path, DONE, WARNED + error, "").verdict == "fail"


@pytest.mark.parametrize("above", ["/x/data.py:88: ", "rank 0: ", "FATAL: ", "FATAL rank=0 "])
def test_an_exception_that_a_program_has_written_in_a_line(tmp_path: Path, above: str) -> None:
    text = f"{above}ValueError: sample 17 is cut\n"
    assert not of_ranks(tmp_path / "well", DONE, text, "").findings
    assert of_ranks(tmp_path / "cut", OUT, text, "").verdict == "incomplete"
    assert of_ranks(tmp_path / "told", OUT, text, "", console="exitcode  : 1 (pid: 17)\n").verdict == "fail"
    (tmp_path / "one").mkdir()
    (tmp_path / "one/x.log").write_text(OUT + text)
    assert judged_files(tmp_path / "one").verdict == "fail"


@pytest.mark.parametrize("other", [raised("[rank1]: ", CLOSED), ""])
def test_what_a_program_caught_has_ended_it_where_others_miss_it(tmp_path: Path, other: str) -> None:
    console = "" if other else "exitcode  : 1 (pid: 17)\n"
    found = of_ranks(tmp_path, OUT, WARNED + CAUGHT, other, console=console)
    assert [one.check for one in found.findings if one.because_of is None] == ["process/exception"]


def test_what_all_ranks_caught_does_not_follow_from_how_one_was_killed(tmp_path: Path) -> None:
    console = TABLE.replace("8 (local_rank: 0)", "1 (local_rank: 1)")
    killed = console.format(code=-9, told="Signal 9 (SIGKILL) received by PID 101")
    for texts in ((CAUGHT, CAUGHT), (CAUGHT, "")):
        found = of_ranks(tmp_path / f"killed{len(texts[1])}", OUT, *texts, console=killed)
        assert found.findings[0].check == "process/killed-by-oom" and found.findings[0].ranks == (1,)
        assert "process/exception" not in [one.check for one in found.findings if "rouge" in one.summary]
    for texts, code in (((CAUGHT, CAUGHT), 1), ((CAUGHT, CAUGHT), -6)):
        found = of_ranks(tmp_path / f"{code}{len(texts[1])}", OUT, *texts, console=console.format(code=code, told="x"))
        assert found.findings[0].check == "process/exception"


THREAD = """Exception in thread Thread-3 (send):
Traceback (most recent call last):
  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner
    self.run()
  File "/x/train.py", line 34, in send
    client.put(part)
{error}
"""


@pytest.mark.parametrize("error", ["OSError: no route to the bucket", "BrokenPipeError: [Errno 32] Broken pipe"])
def test_what_ended_a_thread_of_a_rank_that_ended_well(tmp_path: Path, error: str) -> None:
    text = WARNED + THREAD.format(error=error)
    found = of_ranks(tmp_path / "well", DONE, text, "")
    assert (found.verdict, found.findings, found.candidates) == ("warn", (), ())
    assert "the log does not show whether the job survived it" in found.notes[0] and error in found.notes[0]
    found = of_ranks(tmp_path / "cut", OUT, text, "")
    assert found.verdict in ("fail", "incomplete") and (found.findings or found.candidates)


def test_ranks_that_have_told_themselves_that_they_lost_another(tmp_path: Path) -> None:
    lost = CAUGHT.replace("KeyError: 'rouge'", CLOSED)
    found = of_ranks(tmp_path, OUT, lost, lost, "")
    assert found.verdict == "incomplete" and "process/peer-died" in [one.check for one in found.candidates]


@pytest.mark.parametrize("above", ["Exception ignored in atexit callback: <function late at 0x7f>\n", ""])
def test_what_atexit_was_to_call_fails_nothing(tmp_path: Path, above: str) -> None:
    found = of_ranks(tmp_path, DONE, above + raised("", "ConnectionResetError: [Errno 104] Connection reset by peer"))
    assert (found.verdict, found.candidates) == ("pass", ()) if above else found.verdict != "pass"
