"""Tests of what is said of a job of Ray Train whose workers Ray has not placed."""

from __future__ import annotations

from typing import Any

import pytest

from distdoctor.model.facts import Frame, JobProcess, JobThread, ProcessChanges, RayBundle, RayDemand, RayView
from distdoctor.model.report import Report
from tests.hang.job_cases import judged
from tests.hang.live_facts import node

FIT = (
    Frame("wait", "ray/_private/worker.py", 3113),
    Frame("fit", "ray/train/base_trainer.py", 707),
    Frame("<module>", "train.py", 12, own=True),
)
GPUS = RayDemand((RayBundle({"CPU": 1.0, "GPU": 1.0}), RayBundle({"GPU": 1.0}, 3)), "PACK")


GET = (Frame("get", "ray/_private/worker.py", 2882), Frame("<module>", "main_ppo.py", 7, own=True))
"""A driver outside Ray Train, as verl's and vLLM's."""


def report(age: float = 90.0, frames: tuple[Frame, ...] = FIT, **view: Any) -> Report:
    """The report on a driver that waits in ``fit()``, or in other frames."""
    told: dict[str, Any] = {
        "status": True,
        "demands": (GPUS,),
        "resources": {"CPU": (0.0, 2.0)},
        "nodes": 1,
        "impossible": True,
    } | view
    main = JobThread(90, "python", "S", call="futex", frames=frames)
    driver = JobProcess(90, 1, "launcher", "python", "S", age=age, threads=(main,), moved=ProcessChanges(1.5))
    ray = RayView("session_1", told.pop("driver", 90), **told)
    return judged(node(driver, launcher="ray", master_addr="", master_port=None, world_size=None, nnodes=None, ray=ray))


def test_the_cluster_has_no_such_resource() -> None:
    told = report()
    (finding,) = told.findings
    assert (finding.check, finding.severity, told.verdict) == ("store/nodes-missing", "fail", "fail")
    assert told.details["job"]["state"] == "hangs"
    assert finding.summary == (
        "The driver (pid 90, train.py:12) waits for Ray to place 4 workers with 1 GPU each; Ray's cluster has 0 GPUs."
    )
    assert "until it has 4 GPUs" in finding.fixes[0].text
    assert "`ray status`, `ray list placement-groups`" in finding.fixes[0].text


@pytest.mark.parametrize(
    ("frames", "demand", "less"),
    [
        (FIT, GPUS, "lower num_workers, use_gpu or resources_per_worker of the ScalingConfig"),
        (GET, GPUS, "lower the bundles of the placement group (verl: trainer.nnodes, trainer.n_gpus_per_node;"),
        (GET, RayDemand((RayBundle({"GPU": 1.0}),)), "lower what the task or actor asks for"),
    ],
)
def test_the_fix_names_what_asks_for_the_resources(frames: tuple[Frame, ...], demand: RayDemand, less: str) -> None:
    (finding,) = report(frames=frames, demands=(demand,)).findings
    assert f"or {less}" in finding.fixes[0].text


@pytest.mark.parametrize(
    ("gpus", "severity", "said", "fix"),
    [
        (
            (0.0, 4.0),
            "fail",
            "one of them must be on 10.1.2.3, and Ray has no node there, or none with",
            "VLLM_HOST_IP",
        ),
        ((0.0, 1.0), "fail", "Ray's cluster has 1 GPU", "until it has 2 GPUs"),
        ((3.0, 4.0), "warn", "Ray's cluster has 1 of 4 GPUs free", "Wait for the jobs that hold these resources"),
    ],
)
def test_a_bundle_for_one_node_alone(gpus: tuple[float, float], severity: str, said: str, fix: str) -> None:
    """vLLM's first bundle asks for its driver's node by its address, which Ray's status does not list."""
    demand = RayDemand((RayBundle({"GPU": 1.0, "node:10.1.2.3": 0.001}), RayBundle({"GPU": 1.0})), "PACK")
    (finding,) = report(frames=GET, demands=(demand,), resources={"GPU": gpus}).findings
    assert (finding.severity, said in finding.summary) == (severity, True), finding.summary
    assert fix in finding.fixes[0].text


def test_fewer_workers_do_not_help_if_one_is_too_large() -> None:
    (finding,) = report(resources={"GPU": (0.0, 8.0), "CPU": (0.0, 8.0)}, nodes=8).findings
    assert "Lower resources_per_worker of the ScalingConfig to what one node has" in finding.fixes[0].text


@pytest.mark.parametrize(
    ("view", "severity", "said"),
    [
        ({"age": 4.0}, "warn", "Ray's cluster has 0 GPUs"),
        ({"impossible": False}, "fail", "Ray's cluster has 0 GPUs"),
        ({"impossible": False, "age": 30.0}, "warn", "Ray's cluster has 0 GPUs"),
        ({"starting": ("gpu, 1 launching",)}, "warn", "Ray's cluster has 0 GPUs"),
        ({"resources": {"GPU": (6.0, 8.0), "CPU": (1.0, 8.0)}, "impossible": False}, "warn", "2 of 8 GPUs free"),
        ({"resources": {"GPU": (0.0, 8.0), "CPU": (0.0, 8.0)}, "nodes": 8}, "fail", "no single node of Ray's cluster"),
        (
            {"demands": (RayDemand((RayBundle({"CPU": 1.0}, 2),), "STRICT_SPREAD"),), "impossible": False},
            "fail",
            "each needs a node of its own, and Ray's cluster has 1",
        ),
        (
            {"demands": (RayDemand((RayBundle({"CPU": 2.0}), RayBundle({"CPU": 1.0}, 3)), "PACK"),)},
            "fail",
            "4 workers with 1 CPU each; Ray's cluster has 2 CPUs",
        ),
        (
            {"demands": (RayDemand((RayBundle({"GPU": 1.0}),)),)},
            "fail",
            "waits for Ray to place a task or actor with 1 GPU; ",
        ),
        ({"driver": None}, "fail", "The controller (pid 90, train.py:12)"),
    ],
)
def test_what_ray_lacks_and_whether_it_may_come(view: dict[str, Any], severity: str, said: str) -> None:
    (finding,) = report(**view).findings
    assert (finding.severity, said in finding.summary) == (severity, True), finding.summary


@pytest.mark.parametrize(
    ("view", "note"),
    [
        ({}, "run `ray status` and `ray list actors"),
        ({"status": False}, "whose status is on the head node"),
        ({"workers": {0: "10.0.0.2", 1: "10.0.0.3"}}, "run distdoctor hang on 10.0.0.2, 10.0.0.3"),
    ],
)
def test_a_driver_alone_that_waits_for_nothing_is_neither_well_nor_stuck(view: dict[str, Any], note: str) -> None:
    told = report(demands=(), **view)
    assert (told.findings, told.verdict) == ((), "incomplete")
    assert any(note in line for line in told.notes)
