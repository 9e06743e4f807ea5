"""Real runs whose store others write into, with both of torch's stores: nobody prints what node 0 did not judge."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from distdoctor.model.facts import decode
from distdoctor.model.stages import opened_up_to
from distdoctor.session.protocol.messages import Command, Event
from tests.helpers.hostile import (
    BACKENDS_AND_TOKENS,
    FORGED,
    USUAL_BACKEND,
    Intruder,
    announce,
    forged_report,
    hostile_node_0,
    intruding,
)
from tests.helpers.runs import ended, failures, node, roots, started
from tests.helpers.servers import unused_port


async def forge(intruder: Intruder) -> None:
    """Write reports that pass and that fail over everything node 0 writes, again and again, once a member is there."""
    await intruder.first_hello()
    for turn in range(3000):
        for place in range(4):
            await announce(intruder, forged_report(("pass", "fail")[turn % 2]), place)
        await asyncio.sleep(0.005)  # as fast as it can, it would only take the processor from the run


@BACKENDS_AND_TOKENS
def test_a_report_that_others_write_is_printed_by_nobody(libuv: str, token: str | None) -> None:
    port = unused_port()
    variables = {"USE_LIBUV": libuv, **({"DISTDOCTOR_TOKEN": token} if token else {})}
    limits = ("--wait", "40", "--timeout", "8")
    with (
        started(*node(0, port, *limits), **variables) as first,
        intruding(port, forge),
        started(*node(1, port, *limits), **variables) as second,
    ):
        results = [ended(first), ended(second)]
    for status, report in results:
        assert status in (1, 3) and report["verdict"] in ("fail", "incomplete")
        assert "evil.example" not in json.dumps(report) and "so it is" not in json.dumps(report)
        assert len(report["nodes"]) >= 1 and report["plan"], "it is a report of its own"
    assert FORGED in roots(results[0][1]), results[0][1]["findings"]
    assert "gloo/init-failed" not in roots(results[0][1]), "node 0 takes nothing of it for its own"
    if token:
        assert "gloo/init-failed" not in failures(results[1][1])


ALONE: dict[str, tuple[int, ...]] = {"1": (0,)}
"""Every rank of the run is one of node 1's own, says who plays node 0."""


def passing_alone() -> list[Command]:
    """Open every stage for node 1 alone, so that each of them passes there."""
    own = Command("stage", seconds=20.0, world=1, ranks=ALONE, group_ranks=ALONE, node_ranks={"1": 1})
    left_out = Command("skip", "nccl", reason="no GPU")
    return [
        left_out if stage.name == "nccl" else replace(own, stage=stage.name) for stage in opened_up_to("collective")
    ]


@USUAL_BACKEND
def test_a_pass_needs_all_nodes_in_the_stages_whatever_the_report_in_the_store_says(libuv: str) -> None:
    """Nobody can be asked whether the report is node 0's: here there is no node 0. All stages passed, but alone."""
    commands = passing_alone()

    async def pass_it(intruder: Intruder) -> None:
        ended_stages, number = set(), 1
        while "collective" not in ended_stages:
            value = await intruder.client.get(intruder.key(f"m/1/{number}"))
            if value is None:
                await asyncio.sleep(0.02)
                continue
            event, number = decode(value, Event), number + 1
            ended_stages |= {event.stage} if event.kind == "result" else set()
        await announce(intruder, forged_report("pass"), len(commands))

    with (
        hostile_node_0(libuv, *commands) as store,
        intruding(store.port, pass_it),
        started(*node(1, store.port, "--wait", "40", "--timeout", "40")) as one,
    ):
        status, report = ended(one)
    assert [s["status"] for s in report["stages"] if s["stage"] == "collective"] == ["pass"], report["stages"]
    assert (status, report["verdict"]) == (3, "incomplete")
    assert any("not confirmed" in note for note in report["notes"])
