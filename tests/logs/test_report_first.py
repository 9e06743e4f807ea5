"""Tests of what LSF puts above the output of a job: how that ended is told behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.logs.reading import formats
from tests.logs.judging import judged, raised

STEPS = "".join(f"step {number} loss 2.{number}\n" for number in range(20))
REPORT = """Sender: LSF System <lsfadmin@gpu01>
Subject: Job 77: <train> in cluster <c> {}

Job <train> was submitted from host <login> by user <u> in cluster <c> at Fri Jan  2 10:00:00 2026
Your job looked like:
------------------------------------------------------------
# LSBATCH: User input
torchrun --nproc-per-node 2 train.py --epochs 10
------------------------------------------------------------

{}

Resource usage summary:

    CPU time :                                   210.00 sec.
    Max Memory :                                 64000 MB

The output (if any) follows:

"""
GOOD, BAD = REPORT.format("Done", "Successfully completed."), REPORT.format("Exited", "Exited with exit code 1.")
MEMORY = REPORT.format(
    "Exited", "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\nExited by signal 9."
)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (GOOD + STEPS, "pass"),
        (BAD + STEPS, "incomplete"),
        (BAD + STEPS + "Training complete.\n", "incomplete"),
        (BAD + STEPS + GOOD + STEPS, "pass"),
        (GOOD + STEPS + BAD + STEPS, "incomplete"),
        (BAD + STEPS + raised("", "KeyError: 'x'"), "fail"),
        (MEMORY + STEPS, "fail"),
        (REPORT.format("Exited", "Exited with signal termination: 9.") + STEPS, "fail"),
        (GOOD + STEPS + raised("", "KeyError: 'x'"), "fail"),
    ],
)
def test_how_a_job_of_lsf_ended(tmp_path: Path, text: str, verdict: str) -> None:
    assert judged(tmp_path, text).verdict == verdict


def test_where_its_lines_stand(tmp_path: Path) -> None:
    assert judged(tmp_path, MEMORY + STEPS).findings[0].evidence[0].startswith(f"{tmp_path}/part0.log:11: ")
    lines = (BAD + STEPS + GOOD + STEPS).encode()
    text, numbers = formats.report_last(lines)
    assert [lines.split(b"\n")[number - 1] for number in numbers] == text.split(b"\n")[:-1]
    assert sorted(numbers) == [*range(1, lines.count(b"\n") + 1)]


def test_a_report_of_which_the_end_is_lost() -> None:
    for text in (BAD[:300], BAD + "step 1", BAD.replace("Resource", "No resource")):
        assert sorted(formats.report_last(text.encode())[0].split()) == sorted(text.encode().split())
