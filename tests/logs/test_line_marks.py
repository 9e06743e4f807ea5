"""Logs before every line of which a harness or a viewer has put something."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import TABLE, judged, raised

LOG = "".join(f"step {number} loss 2.31\n" for number in range(6)) + raised("[rank8]: ", "ValueError: shard 17 is cut")
LOG += TABLE.format(code=1, told="x")


def marked(form: str) -> str:
    return "".join(f"{form.format(number)}{line}\n" for number, line in enumerate(LOG.splitlines(), 1))


@pytest.mark.parametrize("form", ["# ", "// ", "{:>6}\t", "{}:"], ids=["tap", "slashes", "cat -n", "grep -n"])
def test_the_log_is_read_as_without_it(tmp_path: Path, form: str) -> None:
    found = judged(tmp_path, marked(form))
    assert [(one.check, one.ranks) for one in found.findings][:1] == [("process/exception", (8,))]
    assert "shard 17" in found.findings[0].summary


def test_a_harness_has_lines_of_its_own(tmp_path: Path) -> None:
    text = "TAP version 13\n1..2\nok 1 - one GPU\n" + marked("# ") + "not ok 2 - two GPUs\n"
    assert judged(tmp_path, text).findings[0].ranks == (8,)


def test_comments_of_a_program_are_none(tmp_path: Path) -> None:
    text = "".join(
        f"# {line}\n" for line in ("Run it on two nodes.", "Where it says", "ValueError: shard 17 is cut", "mend it.")
    )
    found = judged(tmp_path, f"{text * 3}import torch\n")
    assert (found.verdict, found.findings) == ("warn", ())
