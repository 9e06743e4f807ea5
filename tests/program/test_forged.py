"""Real runs whose store others write into, with both of torch's stores: nobody prints what node 0 did not judge."""

from __future__ import annotations

import asyncio
import json

from tests.helpers.hostile import BACKENDS_AND_TOKENS, FORGED, Intruder, announce, forged_report, intruding
from tests.helpers.runs import ended, failures, node, roots, started
from tests.helpers.servers import unused_port


async def forge(intruder: Intruder) -> None:
    """Write reports that pass and that fail over everything node 0 writes, fast, once a member is there."""
    await intruder.first_hello()
    for turn in range(3000):
        for place in range(4):
            await announce(intruder, forged_report(("pass", "fail")[turn % 2]), place)
        await asyncio.sleep(0)


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
