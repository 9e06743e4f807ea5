"""Whom a file is from by its name, and what of its name is only a place of the disk."""

from __future__ import annotations

from pathlib import Path

from distdoctor.logs.collect import Collector
from distdoctor.logs.file_names import above
from tests.logs.judging import LOGS, judged_files, raised


def test_folders_above_the_one_that_is_asked_for_are_no_hosts(tmp_path: Path) -> None:
    folder = tmp_path / "node7" / "user" / "run"
    folder.mkdir(parents=True)
    (folder / "train.log").write_text(raised("[rank3]: ", "KeyError: 'lr'"))
    assert judged_files(folder).findings[0].nodes == ()
    assert judged_files(tmp_path / "node7").findings[0].nodes == ("node7",)
    named = Collector(LOGS).collect([folder / "train.log"]).logs
    assert named.sources[0].who.host is None


def test_how_much_of_a_name_says_nothing() -> None:
    assert above("/data/gpu1/logs/job/host0/a.log", "/data/gpu1/logs/job") == len("/data/gpu1/logs/")
    assert above("job/a.log", "job") == 0
    assert above("/data/gpu1/u/x/host0/run/a.log", "") == len("/data/gpu1/u/x/")
    assert above("a.log", "") == 0
