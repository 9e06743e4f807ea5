"""A job that somebody has started again, with its output appended to the same log: no launcher tells of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import CLOSED, judged, raised

BEGINS = "Loading the tokenizer from /models/t5\nBuilding the model (1.3 B parameters)\n"
MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def steps(last: int, who: str = "") -> str:
    return "".join(f"{who}step {number}/1000 loss 2.{number}\n" for number in range(last))


def told(path: Path, text: str) -> tuple[str, str]:
    found = judged(path, text)
    return found.verdict, " ".join(found.findings[0].evidence) if found.findings else found.notes[0]


@pytest.mark.parametrize("first", ["KeyError: 'mask'", MEMORY], ids=["an exception", "a cause"])
@pytest.mark.parametrize("who", ["", "[rank1]: "])
def test_the_last_try_is_judged(tmp_path: Path, first: str, who: str) -> None:
    again = BEGINS + steps(60) + raised(who, "ValueError: too many values to unpack")
    verdict, said = told(tmp_path, BEGINS + steps(40) + raised(who, first) + again)
    assert verdict == "fail" and "too many values" in said and first[:10] not in said


def test_a_last_try_that_shows_a_symptom_only(tmp_path: Path) -> None:
    again = BEGINS + steps(60) + raised("[rank0]: ", CLOSED)
    found = judged(tmp_path, BEGINS + steps(40) + raised("", MEMORY) + again)
    assert found.verdict == "incomplete" and not found.findings
    assert any("an earlier try is not judged; it ended with gpu/out-of-memory" in note for note in found.notes)


def test_times_before_the_lines(tmp_path: Path) -> None:
    text = BEGINS + steps(40) + raised("", MEMORY)
    lines = "".join(f"2026-11-23 06:41:07,12{number % 10} {line}\n" for number, line in enumerate(text.splitlines()))
    again = BEGINS + steps(60) + raised("", "KeyError: 'mask'")
    later = "".join(f"2026-11-23 09:12:44,78{number % 10} {line}\n" for number, line in enumerate(again.splitlines()))
    assert "KeyError" in told(tmp_path, lines + later)[1]


@pytest.mark.parametrize(
    "below",
    [
        BEGINS,  # of a rank that is slow to start, beside one that failed at once
        BEGINS.splitlines()[0] + "\n" + steps(4),  # one line may be said at each epoch
        BEGINS + steps(40),  # what `python -m` keeps back until it ends
    ],
)
def test_one_try(tmp_path: Path, below: str) -> None:
    text = BEGINS + raised("[rank0]: ", MEMORY) + below + raised("[rank1]: ", "KeyError: 'mask'")
    assert "out of memory" in told(tmp_path, text)[1]


def test_a_log_that_begins_with_a_warning_of_a_module(tmp_path: Path) -> None:
    """What is survived at the beginning is no beginning."""
    odd = raised("", "ModuleNotFoundError: No module named 'apex'")
    text = odd + steps(40) + raised("[rank0]: ", MEMORY) + odd + raised("[rank1]: ", "KeyError: 'mask'")
    assert "out of memory" in told(tmp_path, text)[1]
