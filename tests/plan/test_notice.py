"""The port of a launch's notice: one for all of its tasks, another for another launch."""

from __future__ import annotations

from distdoctor.plan.notice import FIRST_PORT, PORTS, Notice, notice_of

STEP = {
    "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "host[0-1]", "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_LOCALID": "0",
}  # fmt: skip


def task(number: int, **more: str) -> Notice | None:
    return notice_of({**STEP, "SLURM_PROCID": str(number), "SLURM_NODEID": str(number), **more})


def test_all_tasks_of_a_launch_have_the_same_whatever_their_master_port() -> None:
    first, second = task(0, MASTER_PORT="29500"), task(1, MASTER_PORT="29777", MASTER_ADDR="host1")
    assert first is not None and first == second and first.first == "host0"
    assert FIRST_PORT <= first.port < FIRST_PORT + PORTS


def test_another_step_of_the_job_has_another() -> None:
    first, second = task(0), task(0, SLURM_STEP_ID="1")
    assert first is not None and second is not None and first.read(second.text(29500)) is None
    assert first.read(first.text(29500)) == 29500
    assert first.read(b"HTTP/1.1 400 Bad Request\n") is None
    assert first.read(first.text(70000)) is None


def test_nobody_started_it() -> None:
    assert notice_of({"RANK": "0", "WORLD_SIZE": "2"}) is None
