"""The two streams of a process in a file each, as torchrun's --redirects 3 leaves them: one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.judge.log_findings import LogJudgement
from tests.logs.judging import CLOSED, judged_files, raised

OUT = "".join(f"2026-01-02 10:00:{number:02} INFO: step {number} loss 2.{number}\n" for number in range(30))
DONE = OUT + "2026-01-02 10:00:31 INFO: Training finished\n"
WARNED = "/x/train.py:77: UserWarning: this is slow\n  model(x)\n"
CAUGHT = """Traceback (most recent call last):
  File "/x/train.py", line 34, in evaluate
    scores["rouge"]
KeyError: 'rouge'
"""


def of_ranks(folder: Path, out: str, *errors: str, console: str = "") -> LogJudgement:
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
        f"Error executing job with overrides: []\n{CAUGHT}",  # of Hydra, which leaves frames out
        CAUGHT + raised("", "ValueError: 3"),
        CAUGHT + "\nDuring handling of the above exception, another exception occurred:\n\n" + raised("", "OSError: 3"),
        raised("", "KeyError: Caught KeyError in DataLoader worker process 0.\nOriginal " + CAUGHT.rstrip()),
    ],
)
def test_what_ended_a_program_is_one_also_beside_a_stream_that_ends_well(tmp_path: Path, error: str) -> None:
    assert of_ranks(tmp_path, DONE, WARNED + error, "").verdict == "fail"


@pytest.mark.parametrize("other", [raised("[rank1]: ", CLOSED), ""])
def test_what_a_program_caught_has_ended_it_where_others_miss_it(tmp_path: Path, other: str) -> None:
    console = "" if other else "exitcode  : 1 (pid: 17)\n"
    found = of_ranks(tmp_path, OUT, WARNED + CAUGHT, other, console=console)
    assert [one.check for one in found.findings if one.because_of is None] == ["process/exception"]


@pytest.mark.parametrize("above", ["Exception ignored in atexit callback: <function late at 0x7f>\n", ""])
def test_what_atexit_was_to_call_fails_nothing(tmp_path: Path, above: str) -> None:
    found = of_ranks(tmp_path, DONE, above + raised("", "ConnectionResetError: [Errno 104] Connection reset by peer"))
    assert (found.verdict, found.candidates) == ("pass", ()) if above else found.verdict != "pass"
