"""The stages that each process climbs by itself: what they are left out without, and what they cannot see."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from distdoctor.model.plan import Plan, PlanProblem
from distdoctor.model.stages import ALL_STAGES, GPU
from distdoctor.ranks import devices
from distdoctor.session.context import RunContext
from distdoctor.session.options import Options
from distdoctor.session.stages import local
from tests.facts_builder import CHECKS
from tests.helpers.told import Told


def context(plan: Plan) -> RunContext:
    return RunContext(Options(plan, CHECKS), Told())


def test_devices_are_not_looked_at_without_torch() -> None:
    assert [stage for stage in ALL_STAGES if "torch" in stage.skips_without] == [GPU]
    status, why = asyncio.run(local.look_at_gpus(context(Plan()), None))
    assert (status, why) == ("skipped", "devices are seen through torch, which is not loaded up to the network stage")


def test_a_variable_that_cannot_be_read_fails_the_environment() -> None:
    wrong = Plan(problems=(PlanProblem("RANK", "x", "it is no number"),))
    assert asyncio.run(local.environment(context(wrong))) == ("failed", "RANK: it is no number")
    assert asyncio.run(local.environment(context(Plan()))) == ("ok", "")


class Stuck:
    """A process that looks at devices, and has said so much when one keeps it from going on."""

    def __init__(self, said: str) -> None:
        self.said = said
        self.killed = False

    def spawn(self, name: str) -> Stuck:
        return self

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        await asyncio.sleep(60)
        raise AssertionError

    def output(self) -> str:
        return self.said

    def kill(self) -> None:
        self.killed = True

    def close(self) -> None:
        pass


def test_a_device_that_never_ends_is_named_and_the_others_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    async def known(*_: Any) -> Any:
        return SimpleNamespace(version="2.13.0")

    monkeypatch.setattr(local, "wait_for_torch", known)
    monkeypatch.setattr(local, "GPU", replace(GPU, seconds=0.2))
    shown = [{"index": n, "name": "H100", "computed": "right" if n == 0 else ""} for n in range(3)]
    lines = [f"{devices.COMPUTING} {n} {json.dumps({'visible': shown, 'reason': None})}\n" for n in (0, 1)]
    for said, errors in (
        ("".join(lines), ["", "a product of matrices was begun: no answer from the driver within 0 s", ""]),
        ("some other word\n", []),
    ):
        one, process = context(Plan(nproc_per_node=1, backend="nccl")), Stuck(said)
        status, why = asyncio.run(local.look_at_gpus(one, process))  # type: ignore[arg-type]
        seen = [rank.gpu for rank in one.facts.ranks if rank.gpu]
        assert process.killed and seen
        assert [gpu.error for gpu in seen[0].visible] == errors
        assert (status, why) == (("ok", "3 visible") if errors else ("error", "no answer from the driver within 0 s"))
