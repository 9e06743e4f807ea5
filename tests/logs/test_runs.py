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


RUN = "logs/none_{}/attempt_0/{}/stderr.log"
BEGAN = "[W102 {}.447392902 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved. err=-3\n"


@pytest.mark.parametrize(
    ("second", "time", "apart"),
    [
        ("[rank0]: ", "10:00:31", True),  # no rank is in two folders of one run
        ("[rank2]: ", "10:00:01", False),  # each node of one run makes one
        ("[rank2]: ", "10:40:00", False),  # a node that joined later
        ("", "10:00:31", False),
        ("", "10:40:00", True),
        ("", "11:00:00", False),  # by the clock of another zone
    ],
)
def test_runs_of_torchrun_in_one_log_dir(tmp_path: Path, second: str, time: str, apart: bool) -> None:
    key, value = (raised(who, error) for who, error in (("[rank1]: ", "KeyError: 'x'"), (second, "ValueError: 3")))
    peer = raised("[rank0]: ", CLOSED)
    for order in ("ab", "ba"):  # whatever their names are
        (folder := tmp_path / order).mkdir()
        files = {RUN.format(f"{order[0]}1b2c3d4", rank): BEGAN.format("10:00:00") for rank in (0, 1)}
        files = {name: began + text for (name, began), text in zip(files.items(), (peer, key), strict=True)}
        found = written(folder, {**files, RUN.format(f"{order[1]}1b2c3d4", 0): BEGAN.format(time) + value})
        assert roots(found) == ["process/exception"] * (2 if apart else 1)
        if apart:
            assert found.notes[0].startswith(f"logs of 2 jobs (run 1 (none_{order[0]}1b2c3d4), run 2 (none_")
            assert [one.summary.split("with ")[1] for one in found.findings if one.because_of is None] == [
                "KeyError: 'x'.",
                "ValueError: 3.",
            ]


TOLD = "2026-01-02 {}:{:02} INFO: step {} loss 2.1\n"
CONSOLE = "W0102 {0}:40.826000 14 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 15 closing signal SIGTERM\n"  # noqa: E501
CONSOLE += "E0102 {0}:40.926000 14 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 0 (pid: 16) of binary: /usr/bin/python\n"  # noqa: E501


def _steps(minute: str, seconds: range) -> str:
    return "".join(TOLD.format(minute, second, second) for second in seconds)


@pytest.mark.parametrize(
    ("minute", "seconds", "apart"),
    [
        ("10:00", range(20, 40), True),  # the ranks of one run work at the same time
        ("10:00", range(5, 25), False),
        ("11:00", range(20, 40), False),  # by the clock of another zone
    ],
)
def test_runs_of_torchrun_one_after_the_other(tmp_path: Path, minute: str, seconds: range, apart: bool) -> None:
    first, second = RUN.format("b1b2c3d4", 0), RUN.format("a1b2c3d4", 0)
    files = {first: raised("", "KeyError: 'x'"), second: raised("", "ValueError: 3")}
    files["console.log"] = CONSOLE.format(minute)
    out = {first: _steps("10:00", range(10)), second: _steps(minute, seconds)}
    found = written(tmp_path, {**files, **{name.replace("stderr", "stdout"): text for name, text in out.items()}})
    assert roots(found) == ["process/exception"] * (2 if apart else 1)
    if apart:
        told = [one.summary.split("with ")[1] for one in found.findings if one.because_of is None]
        assert told == ["KeyError: 'x'.", "ValueError: 3."]


def test_a_launchers_log_of_two_runs_is_of_neither(tmp_path: Path) -> None:
    first, second = RUN.format("b1b2c3d4", 0), RUN.format("a1b2c3d4", 0)
    files = {first: raised("", "KeyError: 'x'"), second: raised("", "ValueError: 3")}
    out = {first: _steps("10:00", range(10)), second: _steps("10:00", range(20, 40))}
    files["console.log"] = CONSOLE.format("10:00").replace("00:40", "00:08") + CONSOLE.format("10:00")
    found = written(tmp_path, {**files, **{name.replace("stderr", "stdout"): text for name, text in out.items()}})
    assert len(roots(found)) == 1


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
