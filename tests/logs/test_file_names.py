"""Tests of whom a file is from by its name, and what of its name is only a place of the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.logs.collect import Collector
from distdoctor.logs.reading.file_names import owners_by_name, prefix_length
from tests.logs.judging import CLOSED, LOGS, judged_files, raised


def test_folders_above_the_one_that_is_asked_for_are_no_hosts(tmp_path: Path) -> None:
    folder = tmp_path / "node7" / "user" / "run"
    folder.mkdir(parents=True)
    (folder / "train.log").write_text(raised("[rank3]: ", "KeyError: 'lr'"))
    assert judged_files(folder).findings[0].nodes == ()
    assert judged_files(tmp_path / "node7").findings[0].nodes == ("node7",)
    named = Collector(LOGS).collect([folder / "train.log"]).logs
    assert named.sources[0].who.host is None


def test_how_much_of_a_name_says_nothing() -> None:
    assert prefix_length("/data/gpu1/logs/job/host0/a.log", "/data/gpu1/logs/job") == len("/data/gpu1/logs/")
    assert prefix_length("job/a.log", "job") == 0
    assert prefix_length("/data/gpu1/u/x/host0/run/a.log", "") == len("/data/gpu1/u/x/")
    assert prefix_length("a.log", "") == 0


@pytest.mark.parametrize(
    "names",
    [
        ("job.{}.out", "job.{}.err"),
        ("logs/pretrain-{}.stdout", "logs/pretrain-{}.stderr"),
        ("gpt_8812/{}.out", "gpt_8812/{}.err"),
    ],
)
@pytest.mark.parametrize("silent", [False, True])
def test_tasks_of_srun_by_the_names_of_their_streams(tmp_path: Path, names: tuple[str, str], silent: bool) -> None:
    for number in range(4):
        for name, text in zip(names, ("step 1\n", raised("", "KeyError: 'x'" if number == 2 else CLOSED)), strict=True):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name.format(number)).write_text("" if silent and number != 2 and "err" in name else text)
    assert judged_files(tmp_path).findings[0].ranks == (2,)


@pytest.mark.parametrize(
    "names",
    [
        ("run.{}.out", "run.{}.err"),
        ("slurm-88_{}.out", "slurm-88_{}.err"),  # jobs of an array
        ("job.1{}.out", "job.1{}.err"),
        ("train.{}.log", "eval.{}.log"),
        ("node{}.log", "other.log"),
    ],
)
def test_numbers_that_are_no_ranks(names: tuple[str, str]) -> None:
    every = [name.format(number) for number in range(4) for name in names]
    assert all(who.rank is None and who.task is None for who in owners_by_name(every).values())


def test_tasks_that_go_on_from_host_to_host() -> None:
    found = owners_by_name([f"logs/n0{rank // 4 + 1}.{rank}.log" for rank in range(8)])
    assert (found["logs/n02.5.log"].rank, found["logs/n02.5.log"].host) == (5, "n02")
    assert not owners_by_name([f"logs/n0{rank // 4 + 1}.{rank % 4}.log" for rank in range(8)])
    assert not owners_by_name([f"logs/step{rank}.{rank}.log" for rank in range(1, 8)])
