"""A folder of logs that somebody has packed with tar is read as that folder."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from distdoctor.judge.logs.findings import LogJudgement
from distdoctor.logs.reading import reader
from tests.logs.judging import CLOSED, judged_files, raised

STEPS = "".join(f"step {number}/99 loss 2.{number}\n" for number in range(30))
KEY = raised("", "KeyError: 'mask'")


def packed(path: Path, files: dict[str, str], mode: str = "w:gz") -> LogJudgement:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, text in files.items():
            one = tarfile.TarInfo(name)
            one.size = len(text.encode())
            tar.addfile(one, io.BytesIO(text.encode()))
    return judged_files(path.parent)


@pytest.mark.parametrize(("name", "mode"), [("logs.tar", "w"), ("job-17.tar.gz", "w:gz"), ("x.tgz", "w:gz")])
def test_which_file_a_line_is_of_tells_the_rank(tmp_path: Path, name: str, mode: str) -> None:
    files = {f"./job/rank{rank}.log": STEPS + (KEY if rank == 2 else raised("", CLOSED)) for rank in range(4)}
    found = packed(tmp_path / name, files, mode)
    assert [(one.check, one.ranks) for one in found.findings if one.because_of is None] == [("process/exception", (2,))]
    assert f"{name}/job/rank2.log:" in found.findings[0].evidence[0]


def test_who_says_nothing_is_named(tmp_path: Path) -> None:
    files = {f"rank{rank}.log": STEPS + ("" if rank == 2 else raised("", CLOSED)) for rank in range(4)}
    found = packed(tmp_path / "logs.tar.gz", files)
    assert found.verdict == "incomplete" and any("rank2.log shows no failure" in note for note in found.notes)


def test_parts_of_a_rotated_log_and_hidden_files(tmp_path: Path) -> None:
    files = {"a.log": STEPS, "a.log.1": STEPS + raised("", "ConnectionError: away"), "._a.log": KEY, ".b/c.log": KEY}
    found = packed(tmp_path / "logs.tar.gz", files)
    assert not found.findings and found.verdict == "warn"


def test_an_archive_that_was_cut_off(tmp_path: Path) -> None:
    packed(tmp_path / "logs.tar", {"rank0.log": STEPS, "rank1.log": STEPS * 40}, "w")
    whole = (tmp_path / "logs.tar").read_bytes()
    (tmp_path / "logs.tar").write_bytes(whole[:4000])
    found = judged_files(tmp_path)
    assert found.verdict == "incomplete" and "not read to its end" in " ".join(found.notes)


def test_one_that_holds_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "HELD", 6000)
    found = packed(tmp_path / "logs.tar.gz", {"rank0.log": KEY, "rank1.log": STEPS * 40})
    assert [one.check for one in found.findings] == ["process/exception"]
    assert any(note.endswith("unpacked, the rest was not read") for note in found.notes), found.notes


def test_what_is_none_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "train.tar").write_text(STEPS + KEY)
    assert [one.check for one in judged_files(tmp_path).findings] == ["process/exception"]
