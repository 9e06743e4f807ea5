"""Tests of how a log ends: with the end of the job, however long its summary is, with a part of it, or in mid-work."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.logs import endings
from tests.logs.judging import CLOSED, judged, raised

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
        "[after training is done] datetime: 2026-01-06 14:21:39 ",  # Megatron-LM
        "[default0]:[exiting program at iteration 6000] datetime: 2026-01-06 14:21:39 ",
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


@pytest.mark.parametrize(
    "line",
    [
        "[exiting program after receiving SIGTERM.] datetime: 2026-01-06 14:21:39 ",
        "[before the start of training step] datetime: 2026-01-06 14:21:39 ",
        "(TaskRunner pid=4711) Final validation metrics: see the table",
    ],
)
def test_what_is_no_end_of_a_job(tmp_path: Path, line: str) -> None:
    assert judged(tmp_path, f"{STEPS}{line}\n{SUMMARY}").verdict == "warn"


@pytest.mark.parametrize(
    ("line", "ended"),
    [
        ("(TaskRunner pid=4711) 'Final validation metrics: None'", True),  # verl
        ("(TaskRunner pid=4711) (\"Final validation metrics: {'val-core/openai/gsm8k/reward/mean@1': \"", True),
        ("(TaskRunner pid=4711) (\"Initial validation metrics: {'val-core/openai/gsm8k/reward/mean@1': \"", False),
    ],
)
def test_what_rays_actors_report_after_the_end_of_verl_is_teardown(tmp_path: Path, line: str, ended: bool) -> None:
    lost = "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    found = judged(tmp_path, f"{STEPS}{line}\n{lost}")
    assert (found.verdict in ("pass", "warn")) == ended


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
    assert judged(tmp_path, f"{saving}{raised}{error}").verdict == "fail"


@pytest.mark.parametrize("said", ["Training complete", "INFO     Done waiting for a return code. Received 1"])
def test_ranks_that_fail_after_the_end_have_failed(tmp_path: Path, said: str) -> None:
    assert judged(tmp_path, f"{STEPS}{TABLE}sagemaker-training-toolkit {said}\n").verdict == "incomplete"


def test_a_word_of_a_script_is_not_that_of_its_tests(tmp_path: Path) -> None:
    found = judged(tmp_path, f"{STEPS}{HANDLED}unmounting scratch\nOK\n")
    assert [one.check for one in found.findings] == ["process/exception"]


def test_a_part_of_the_job_counts_only_at_its_end() -> None:
    assert endings.judge_ending(b"Evaluation finished\n" + b"something else\n" * 20).finished is None


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


JOB_FINISHED = "Job finished at Fri Jan  2 10:00:00 UTC 2026\n"


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("Killed", "fail"),
        ("job.sh: line 12:  4711 Killed                  python train.py", "fail"),
        ("Segmentation fault (core dumped)", "fail"),
        ("Aborted (core dumped)", "incomplete"),
        ("srun: error: n01: task 0: Killed", "fail"),
        ("srun: error: n01: task 0: Exited with exit code 1", "incomplete"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "warn"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'ckpt.pt', starting from scratch", "warn"),
        ("Terminated", "incomplete"),
        (raised("", "KeyError: 'x'"), "fail"),
        (raised("[rank1]: ", "KeyError: 'x'"), "fail"),
        (raised("", CLOSED), "incomplete"),
        ("terminate called after throwing an instance of 'c10::Error'", "incomplete"),
        ("Floating point exception (core dumped)", "fail"),
        ("/bin/bash: line 14: torchrun: command not found", "fail"),
        ("python: can't open file '/home/u/trian.py': [Errno 2] No such file or directory", "fail"),
        ("train.py: error: the following arguments are required: --data", "fail"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.", "fail"),
        ("job.sh: line 20: echo: write error: No space left on device", "fail"),
        ("Job 'raysubmit_x' failed", "incomplete"),
        ("ERROR: cannot read /data/config.yaml", "warn"),
        ("FATAL: loss is nan at step 20, stopping", "incomplete"),
        ("2026-01-02 10:00:00,000 ERROR __main__: giving up", "warn"),
    ],
)
@pytest.mark.parametrize("finished", [JOB_FINISHED, "Everything done.\n", "State: COMPLETED (exit code 0)\n"])
def test_a_script_that_says_it_is_done_does_not_say_that_the_job_is(
    tmp_path: Path, line: str, verdict: str, finished: str
) -> None:
    assert judged(tmp_path, f"{STEPS}{line}\n{finished}").verdict == verdict


def test_what_is_said_before_and_after_the_end(tmp_path: Path) -> None:
    warning = "WARNING:root:could not upload: [Errno 28] No space left on device\n"
    assert judged(tmp_path, f"{STEPS}{warning}Training complete.\n").verdict == "pass"
    assert judged(tmp_path, f"{STEPS}Training complete.\n{raised('', CLOSED)}").verdict == "pass"


def test_what_tests_provoked_that_have_all_passed(tmp_path: Path) -> None:
    provoked = raised("", "RuntimeError: Timed out waiting 1000ms for recv operation to complete")
    assert judged(tmp_path, f"{provoked}=========== 2 passed, 1 warning in 12.10s ===========\n").verdict == "pass"
    assert judged(tmp_path, f"{provoked}====== 1 failed, 2 passed in 12.10s ======\n").verdict == "incomplete"


def test_what_is_raised_after_somebody_said_that_the_job_is_done(tmp_path: Path) -> None:
    done = f"{STEPS}Training complete.\n"
    assert judged(tmp_path, done + raised("[rank1]: ", "KeyError: 'x'") + JOB_FINISHED).findings[0].ranks == (1,)
    exported = judged(tmp_path, done + raised("", "KeyError: 'x'") + JOB_FINISHED)  # by another program, perhaps
    assert exported.verdict == "warn" and "whether the job survived it" in exported.notes[0]
    assert judged(tmp_path, done + raised("[rank0]: ", CLOSED)).verdict == "pass"


def test_an_error_after_the_end_is_none_of_the_job(tmp_path: Path) -> None:
    error = "ERROR: could not upload the metrics\n"
    assert judged(tmp_path, f"{STEPS}Training complete.\n{error}{JOB_FINISHED}").verdict == "pass"
    assert judged(tmp_path, f"{STEPS}{error}Ran 2 tests in 1.2s\n\nOK\n").verdict == "pass"
    assert "last seen doing: ERROR: could" in judged(tmp_path, f"{STEPS}{error}{JOB_FINISHED}").notes[0]


def test_a_tool_that_is_ended_after_the_job(tmp_path: Path) -> None:
    assert judged(tmp_path, f"{STEPS}Training complete.\nthe monitor has ended, exit code 143\nbye\n").verdict == "pass"
    killed = "job.sh: line 20:  4711 Killed                  tensorboard --logdir tb\n"
    assert judged(tmp_path, f"{STEPS}Training complete.\n{killed}{JOB_FINISHED}").verdict == "pass"


def test_what_a_program_has_caught_before_somebody_said_that_it_is_done(tmp_path: Path) -> None:
    text = f"{STEPS}{HANDLED}Training complete.\n"
    found = judged(tmp_path, text)
    assert (found.verdict, found.findings) == ("warn", ()) and "the program caught it" in found.notes[0]


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("[wrapper] training finished with status 1", "incomplete"),
        ("[wrapper] training finished with status 0", "pass"),
        ("Job finished: state=FAILED reason=NonZeroExitCode", "incomplete"),
        ("Job finished: state=SUCCEEDED", "pass"),
        ("run ended, rc=1", "incomplete"),
        ("run ended, rc=0", "pass"),
        ("All done: 3 failed, 5 passed", "warn"),
        ("All done: 0 failed, 5 passed", "pass"),
        ("training finished with errors", "warn"),
        ("training finished without errors", "pass"),
        ("training finished unsuccessfully", "warn"),
        ("job done (killed)", "warn"),
        ("make: *** [Makefile:8: train] Error 1", "incomplete"),
        ("make: *** [Makefile:8: train] Error 137", "fail"),
        ("make[2]: *** [Makefile:8: train] Error 139", "fail"),
        ("wandb: Waiting for W&B process to finish... (failed 1). Press Control-C to abort syncing.", "incomplete"),
        ("wandb: Waiting for W&B process to finish... (success).", "warn"),
        ("the job's container exited with code 2", "incomplete"),
        ("the job's container exited with code 137", "fail"),
        ("error: exit status 1", "incomplete"),
        ("JobID 517 State FAILED ExitCode 1:0 Elapsed 00:05:00", "incomplete"),
        ("JobID 517 State COMPLETED ExitCode 0:0 Elapsed 00:05:00", "warn"),
        ("done in 60.2 s", "pass"),
        ("INFO finished training", "pass"),
        ("INFO finished training epoch 3", "warn"),
    ],
)
def test_an_end_that_is_a_bad_one(tmp_path: Path, line: str, verdict: str) -> None:
    assert judged(tmp_path, f"{STEPS}{line}\n").verdict == verdict


@pytest.mark.parametrize(
    "line",
    [
        "ERROR: Job failed: exit code 1",
        "srun: error: n01: task 0: Exited with exit code 1",
        "make: *** [Makefile:8: train] Error 1",
        "trainer-1 exited with code 1",
        "exit status 1",
    ],
)
@pytest.mark.parametrize("after", ["", JOB_FINISHED])
def test_who_tells_a_bad_exit_code_after_the_end(tmp_path: Path, line: str, after: str) -> None:
    assert judged(tmp_path, f"{STEPS}Training complete.\n{line}\n{after}").verdict == "incomplete"


def test_bars_of_several_epochs_are_steps(tmp_path: Path) -> None:
    bars = "".join(f"Epoch {number}: 100%|####| 200/200 [00:30<00:00,  6.61it/s]\n" for number in range(3))
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 12.00 GiB.\n"
    assert judged(tmp_path, f"{error}{bars}`Trainer.fit` stopped: `max_epochs=3` reached.\n").verdict == "pass"


@pytest.mark.parametrize(
    ("last", "verdict"),
    [
        ("FATAL: engine stalled for 30 s", "incomplete"),
        ("2026-01-01 10:00:00,123 - CRITICAL - no memory pool", "incomplete"),
        ("F0801 12:00:00.000000 123 engine.cc:12] Check failed: queue.size() > 0", "incomplete"),
        ("ERROR   MainThread:24 [internal_api.py:execute():143] 500 response", "warn"),
        ("critical_batch_size=12 FATAL_ERRORS=0", "warn"),
    ],
)
def test_a_log_that_ends_where_its_program_cannot_go_on(tmp_path: Path, last: str, verdict: str) -> None:
    assert judged(tmp_path, f"step 1 loss 2.0\n{last}\n").verdict == verdict
