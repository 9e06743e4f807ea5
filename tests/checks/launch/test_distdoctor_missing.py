from __future__ import annotations

from tests.clusters.calls import call, judged_calls


def test_none_there_and_another_version() -> None:
    old = call(2, "other-version", "distdoctor: no command 'remote'; the commands are check, diagnose", status=2)
    judgement = judged_calls(call(0, "told"), call(1, "absent", status=117), old)
    first, second = judgement.findings
    assert (first.check, first.nodes) == ("launch/distdoctor-missing", ("host1",))
    assert "--setup" in first.fixes[0].text and first.evidence == (
        "host1: nothing of that name on its PATH, and its python3 has none",
    )
    assert (second.check, second.nodes) == ("launch/distdoctor-missing", ("host2",))
    assert "another version" in second.summary and judgement.verdict == "incomplete"
