"""A folder with what several runs left: those that a scheduler numbers, those whose folders say when they began."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.judge.logs.findings import LogJudgement
from tests.logs.judging import CLOSED, judged_files, raised

STEPS = "".join(f"step {number} loss 2.{number}\n" for number in range(30))
FIRST, SECOND = raised("", "KeyError: 'lm_head'"), raised("", "torch.OutOfMemoryError: CUDA out of memory.")
ENDED = STEPS + "Training complete.\n"


def written(folder: Path, files: dict[str, str]) -> LogJudgement:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return judged_files(folder)


def roots(found: LogJudgement) -> list[str]:
    return [finding.check for finding in found.findings if finding.because_of is None]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("outputs/2026-01-02/03-04-05/train.log", "outputs/2026-01-02/03-14-05/train.log"),  # Hydra's
        ("multirun/2026-01-02/03-04-05/0/train.log", "multirun/2026-01-02/03-04-05/1/train.log"),
        ("wandb/run-20260102_030405-ab12/files/output.log", "wandb/offline-run-20260103_030405-cd34/files/output.log"),
        ("session_2026-01-02_03-04-05_123456_9/logs/a.err", "session_2026-01-02_04-04-05_123456_9/logs/a.err"),  # Ray's
        ("llm_20260102-030405/rank0.log", "llm_20260102-033405/rank0.log"),
        ("2026-01-02T03:04:05/rank0.log", "2026-01-02T05:04:05/rank0.log"),
        ("sweep.e55.1", "sweep.e55.2"),  # jobs of an array: SGE, PBS
        ("sweep.e55-1", "sweep.e55-2"),  # Torque
    ],
)
def test_what_one_run_shows_is_no_consequence_of_another(tmp_path: Path, first: str, second: str) -> None:
    found = written(tmp_path, {first: STEPS + FIRST, second: STEPS + SECOND})
    assert roots(found) == ["process/exception", "gpu/out-of-memory"]
    assert found.notes[0].startswith("logs of 2 jobs (")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("outputs/2026-01-02/03-04-05/train.log", "outputs/2026-01-02/03-04-07/train.log"),  # each rank makes its own
        ("wandb/run-20260102_030405-ab12/files/output.log", "wandb/run-20260102_030406-cd34/files/output.log"),
        ("2026-01-02/rank0.log", "2026-01-03/rank0.log"),  # a day is no beginning
        ("outputs/2026-01-02/03-04-05/rank0.log", "slurm.err"),
        ("v20260102.030405.7/20261399_990099/a.log", "v20260102.030405.7/20261398_990099/a.log"),
    ],
)
def test_what_ranks_of_one_run_show_is_judged_together(tmp_path: Path, first: str, second: str) -> None:
    found = written(tmp_path, {first: STEPS + raised("", CLOSED), second: STEPS + SECOND})
    assert roots(found) == ["gpu/out-of-memory"] and not any("jobs" in note for note in found.notes)
    assert "process/peer-died" in [finding.check for finding in found.findings]


def test_a_run_that_failed_before_one_that_ended_well(tmp_path: Path) -> None:
    found = written(
        tmp_path, {"outputs/2026-01-02/03-04-05/a.log": STEPS + FIRST, "outputs/2026-01-02/05-04-05/a.log": ENDED}
    )
    assert found.verdict == "fail" and roots(found) == ["process/exception"]


def test_both_streams_of_a_job_and_older_parts_of_them(tmp_path: Path) -> None:
    found = written(tmp_path, {"a.o98": STEPS, "a.e98": raised("", CLOSED), "a.e98.1": SECOND})
    assert roots(found) == ["gpu/out-of-memory"]


def test_ranks_that_were_started_again_and_have_said_nothing(tmp_path: Path) -> None:
    """The try before them is not the last."""
    tree = {f"run/attempt_0/{rank}/stderr.log": raised(f"[rank{rank}]: ", CLOSED) for rank in range(3)}
    found = written(tmp_path, {**tree, **{f"run/attempt_1/{rank}/stderr.log": "" for rank in range(3)}})
    assert (found.verdict, found.findings, found.candidates) == ("incomplete", (), ())
    assert found.notes[0].endswith(" is empty") and "attempt_1" in found.notes[0]
    assert "an earlier try is not judged; it failed: " in found.notes[1]


@pytest.mark.parametrize("last", [ENDED, STEPS + raised("", CLOSED)])
def test_what_nemo_has_moved_away_is_of_an_earlier_try(tmp_path: Path, last: str) -> None:
    name, folder = "nemo_log_globalrank-{0}_localrank-{0}.txt", "exp/2026-03-02_10-00-00"
    before = {f"{folder}/run_0/{name.format(1)}": STEPS + FIRST, f"{folder}/run_0/{name.format(0)}": raised("", CLOSED)}
    now = {f"{folder}/{name.format(1)}": last, f"{folder}/{name.format(0)}": ENDED if last is ENDED else STEPS + SECOND}
    found = written(tmp_path, {**before, **now})
    assert roots(found) == ([] if last is ENDED else ["gpu/out-of-memory"])
    assert all(finding.check != "process/exception" for finding in found.findings)
    assert (
        "an earlier try is not judged; it ended with process/exception" in found.notes[0 if last is not ENDED else -1]
    )
    if last is not ENDED:
        assert found.findings[0].ranks == (0,)


@pytest.mark.parametrize(
    "names", [("train.o98", "train.e98"), ("a.po7", "a.pe7"), ("98.pbs.OU", "98.pbs.ER"), ("a.o5.1", "a.e5.1")]
)
def test_what_both_streams_of_a_job_tell_is_told_by_one(tmp_path: Path, names: tuple[str, str]) -> None:
    found = written(tmp_path, dict(zip(names, (STEPS, raised("[rank0]: ", CLOSED)), strict=True)))
    assert found.verdict == "incomplete"
    assert not any("shows no failure" in note for note in found.notes)


def test_why_ranks_that_were_started_again_did_not_meet(tmp_path: Path) -> None:
    """Their folders tell that they were."""
    mesh = "RuntimeError: Gloo connectFullMesh failed with [a/pair.cc:152] timed out connecting: Connection refused"
    name = "run/attempt_{}/0/stderr.log"
    for number, told in ((1, True), (0, False)):
        found = written(tmp_path / str(number), {name.format(number): raised("", mesh)})
        assert any("found in its store the addresses" in note for note in found.notes) is told
