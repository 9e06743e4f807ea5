"""How a log ends: with the end of the job, however long its summary is, with a part of it, or in mid-work."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.logs import ending
from tests.logs.judging import judged

STEPS = "".join(f"step {number}: loss {1 / number:.3f}\n" for number in range(1, 60))
SUMMARY = "".join(f"  layer.{number}.weight  frobenius  {number / 7:.4f}\n" for number in range(120))
HANDLED = 'Traceback (most recent call last):\n  File "train.py", line 3, in fetch\nConnectionError: no answer\n'
TABLE = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n  exitcode  : 1 (pid: 77)\n"


@pytest.mark.parametrize(
    "line",
    [
        "{'train_runtime': 812.4, 'train_samples_per_second': 3.1, 'train_loss': 0.41, 'epoch': 3.0}",
        "Training complete.",
        "***** training finished *****",
        "`Trainer.fit` stopped: `max_epochs=3` reached.",
        "[2024-01-01 10:00:00,001] [INFO] [launch.py:347:main] Process 4711 exits successfully.",
        "INFO:torch.distributed.elastic.agent.server.api:Local worker group finished (SUCCEEDED). Waiting 300 seconds",
        "Program exited with code 0",
        "Reporting training SUCCESS, exit code: 0",
        "State: COMPLETED (exit code 0)",
    ],
)
def test_the_end_of_a_job_before_a_long_summary(tmp_path: Path, line: str) -> None:
    found = judged(tmp_path, f"{HANDLED}{STEPS}{line}\n{SUMMARY}")
    assert (found.verdict, found.findings) == ("pass", ())


def test_what_wandb_tells_again_is_no_step(tmp_path: Path) -> None:
    told = "".join(f"wandb: train/loss {number}\n" for number in range(80))
    assert judged(tmp_path, f"{STEPS}Training complete\nwandb: Run summary:\n{told}").verdict == "pass"


@pytest.mark.parametrize("after", [STEPS, "initialized init_process_group, waiting for 3 workers\n"])
def test_what_goes_on_after_the_end_is_no_pass(tmp_path: Path, after: str) -> None:
    assert judged(tmp_path, f"{STEPS}Training complete\n{after}").verdict == "warn"


def test_an_exception_after_a_checkpoint_was_saved_is_not_over(tmp_path: Path) -> None:
    saving = "successfully saved checkpoint at iteration 400\nsaving checkpoint at iteration 600\n"
    raised = 'Traceback (most recent call last):\n  File "torch/serialization.py", line 428, in save\n'
    error = "RuntimeError: [enforce fail at inline_container.cc:325] . unexpected pos 4996040960 vs 4996040856\n"
    assert judged(tmp_path, f"{saving}{raised}{error}").verdict == "incomplete"


@pytest.mark.parametrize("said", ["Training complete", "INFO     Done waiting for a return code. Received 1"])
def test_ranks_that_fail_after_the_end_have_failed(tmp_path: Path, said: str) -> None:
    assert judged(tmp_path, f"{STEPS}{TABLE}sagemaker-training-toolkit {said}\n").verdict == "incomplete"


def test_a_word_of_a_script_is_not_that_of_its_tests(tmp_path: Path) -> None:
    found = judged(tmp_path, f"{STEPS}{HANDLED}unmounting scratch\nOK\n")
    assert [one.check for one in found.findings] == ["process/exception"]


def test_a_part_of_the_job_counts_only_at_its_end() -> None:
    assert ending.judge(b"Evaluation finished\n" + b"something else\n" * 20).finished is None


def test_what_is_to_end_has_not_ended(tmp_path: Path) -> None:
    assert judged(tmp_path, "srun: error: Timed out waiting for job step to complete\n").verdict == "incomplete"


@pytest.mark.parametrize(("states", "verdict"), [((30, 30, 30), "fail"), ((31, 32, 33), "warn")])
def test_a_bar_that_is_drawn_again_as_it_was_shows_no_step(
    tmp_path: Path, states: tuple[int, ...], verdict: str
) -> None:
    bars = "\r".join(f" {number}%|###  | {number}/100 [00:{number:02}<00:10,  3.1it/s]" for number in range(10, 31))
    after = "".join(f" {one}%|###  | {one}/100 [00:40<00:10,  3.1it/s]\r" for one in states)
    found = judged(tmp_path, f"{bars}\n{HANDLED}{after}\n")
    assert found.verdict == verdict
