"""The stages that each process climbs by itself: what they are left out without, and what they cannot see."""

from __future__ import annotations

import asyncio

from distdoctor.model.plan import Plan, PlanProblem
from distdoctor.model.stages import GPU, LADDER
from distdoctor.session import local_stages
from distdoctor.session.options import Options
from distdoctor.session.recorder import Recorder
from tests.facts_builder import CHECKS
from tests.helpers.told import Told


def recorder(plan: Plan) -> Recorder:
    return Recorder(Options(plan, CHECKS), Told())


def test_devices_are_not_looked_at_without_torch() -> None:
    assert [stage for stage in LADDER if "torch" in stage.skips_without] == [GPU]
    status, why = asyncio.run(local_stages.look_at_gpus(recorder(Plan()), None))
    assert (status, why) == (
        "skipped",
        "devices are seen through torch, which is not loaded up to the network stage",
    )


def test_a_variable_that_cannot_be_read_fails_the_environment() -> None:
    wrong = Plan(problems=(PlanProblem("RANK", "x", "it is no number"),))
    assert asyncio.run(local_stages.environment(recorder(wrong))) == ("failed", "RANK: it is no number")
    assert asyncio.run(local_stages.environment(recorder(Plan()))) == ("ok", "")
