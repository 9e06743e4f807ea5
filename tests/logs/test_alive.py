"""Tests of what a log shows to have been survived, since steps stand behind it, is not what ended the job later."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import CLOSED, judged, judged_files, raised

MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
APEX = "ModuleNotFoundError: No module named 'apex'"
KEY = "KeyError: 'mask'"


def steps(first: int, last: int, who: str = "") -> str:
    return "".join(f"{who}step {number}/1000 loss 2.{number}\n" for number in range(first, last))


def root_and_evidence(path: Path, text: str, name: str = "x.log") -> tuple[str, str]:
    """The root and what was seen of it, or the verdict."""
    (path / name).write_text(text)
    found = judged_files(path)
    return (found.findings[0].check, " ".join(found.findings[0].evidence)) if found.findings else (found.verdict, "")


@pytest.mark.parametrize("first", [APEX, MEMORY, "TimeoutError: read timed out"])
@pytest.mark.parametrize("name", ["x.log", "rank0.log"])
def test_another_exception_ended_it(tmp_path: Path, first: str, name: str) -> None:
    text = raised("", first) + "going on without\n" + steps(0, 90) + raised("", KEY)
    assert (
        root_and_evidence(tmp_path, text, name)[0] == "process/exception"
        and "mask" in root_and_evidence(tmp_path, text, name)[1]
    )


def test_of_all_ranks_one_prints_steps(tmp_path: Path) -> None:
    odd = "".join(raised(f"[rank{rank}]: ", APEX) for rank in range(4))
    text = odd + steps(0, 90, "[rank0]: ") + raised("[rank2]: ", KEY) + raised("[rank0]: ", CLOSED)
    assert "mask" in root_and_evidence(tmp_path, text)[1]


def test_what_follows_is_a_symptom_only(tmp_path: Path) -> None:
    """Of a rank's own log that shows that it went on; not of one of all ranks, in which the steps of another may have
    been kept back until it ended."""
    text = raised("", "FileNotFoundError: /data/val.json") + steps(50, 90) + raised("", CLOSED)
    assert root_and_evidence(tmp_path, text, "rank0.log")[0] == "incomplete"
    assert "val.json" in judged(tmp_path, text).findings[0].evidence[0]
    text = raised("[rank3]: ", KEY) + steps(0, 40) + raised("[rank0]: ", CLOSED)
    assert "mask" in judged(tmp_path, text).findings[0].evidence[0]


def test_what_a_module_kept_back_until_it_ended(tmp_path: Path) -> None:
    head = 'Traceback (most recent call last):\n  File "<frozen runpy>", line 198, in _run_module_as_main\n'
    first = head + f'  File "/app/train.py", line 9, in <module>\n    main()\n{KEY}\n'
    text = first + steps(0, 40) + head + '  File "/app/train.py", line 9, in <module>\n    main()\nOSError: gone\n'
    assert "mask" in root_and_evidence(tmp_path, text)[1]


def test_the_same_again_is_not_survived(tmp_path: Path) -> None:
    text = raised("", MEMORY) + "skipping the batch\n" + steps(50, 90) + raised("", MEMORY)
    assert root_and_evidence(tmp_path, text)[0] == "gpu/out-of-memory"


def test_the_next_part_of_a_log_goes_on(tmp_path: Path) -> None:
    (tmp_path / "x.log.1").write_text(steps(0, 90) + raised("", KEY))
    assert "bad shape" in root_and_evidence(tmp_path, steps(80, 200) + raised("", "ValueError: bad shape"))[1]


def test_an_exception_of_a_group_behind_a_label(tmp_path: Path) -> None:
    text = """\
  + Exception Group Traceback (most recent call last):
  |   File "/app/train.py", line 40, in <module>
  |     main()
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/app/train.py", line 27, in one
    |     if n == 2: raise ValueError("bucket listing is empty")
    | ValueError: bucket listing is empty
    +------------------------------------
"""
    labelled = "".join(f"[rank2]: {line}\n" for line in text.splitlines())
    found = judged(tmp_path, labelled).findings[0]
    assert found.ranks == (2,) and "bucket listing" in found.summary


def test_who_went_on_after_it_and_says_nothing_more(tmp_path: Path) -> None:
    thread = "Exception in thread Thread-4 (prefetch):\n" + raised("", "OSError: no more of /mnt/d/s.bin")
    (tmp_path / "rank3.log").write_text(steps(0, 50) + thread + steps(50, 55))
    for rank in range(3):
        (tmp_path / f"rank{rank}.log").write_text(steps(0, 50) + raised("", CLOSED))
    found = judged_files(tmp_path)
    assert found.verdict == "incomplete"
    assert any("rank3.log went on after OSError: no more of /mnt/d/s.bin; it ends" in note for note in found.notes)
