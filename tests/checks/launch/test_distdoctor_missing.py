from __future__ import annotations

from tests.clusters.calls import call, judged_calls


def test_none_there() -> None:
    judgement = judged_calls(call(0, "told"), call(1, "absent", status=117))
    (first,) = judgement.findings
    assert (first.check, first.nodes) == ("launch/distdoctor-missing", ("host1",))
    assert "--setup" in first.fixes[0].text and first.evidence == ("host1: not on its PATH, and not in its python3",)
    assert judgement.verdict == "incomplete"
