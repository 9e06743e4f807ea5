from __future__ import annotations

from tests.clusters.calls import call, judged_calls


def test_none_there() -> None:
    judgement = judged_calls(call(0, "told"), call(1, "absent", status=117))
    (first,) = judgement.findings
    assert (first.check, first.nodes) == ("launch/distdoctor-missing", ("host1",))
    assert "--setup" in first.fixes[0].text and first.evidence == (
        "host1: nothing of that name on its PATH, and its python3 has none",
    )
    assert judgement.verdict == "incomplete"
