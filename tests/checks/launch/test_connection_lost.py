from __future__ import annotations

from dataclasses import replace

from tests.clusters.calls import call, judged_calls
from tests.facts_builder import healthy


def test_lost_in_the_middle_and_ended_by_itself() -> None:
    failed = call(2, "failed", "distdoctor: crashed: OSError: disk", status=3)
    first, second = judged_calls(call(0, "told"), call(1, "lost"), failed).findings
    assert (first.check, first.nodes) == ("launch/connection-lost", ("host1",))
    assert first.evidence == ("host1: ssh ended with status 255 after 1.5 s",)
    assert (second.nodes, second.evidence[0][-4:]) == (("host2",), "disk")


def test_a_login_that_runs_no_command_is_no_check_that_ended() -> None:
    nologin = call(1, "failed", "This account is currently not available.", status=1)
    crashed = replace(call(2, "failed", "distdoctor: crashed: OSError: disk", status=3), distdoctor="0.1.0")
    first, second = judged_calls(call(0, "told"), nologin, crashed).findings
    assert (first.nodes, first.title) == (("host1",), "The check did not start on a host")
    assert first.evidence[0].endswith("status 1 after 1.5 s: This account is currently not available.")
    assert (second.nodes, second.title) == (("host2",), "The check on a host ended without facts")


def test_what_a_host_says_that_has_heard_nothing_is_told() -> None:
    heard = "distdoctor: nothing has come for 11 s from where the run was started: the run here ends"
    last = "distdoctor: interrupted by SIGTERM before there was anything to tell"
    (finding,) = judged_calls(call(0, "told"), call(1, "lost", heard, last, status=143)).findings
    assert finding.evidence == (f"host1: ssh ended with status 143 after 1.5 s: {heard}",)


def test_that_it_did_not_come_follows_from_it() -> None:
    zero = healthy(2)[0]
    assert zero.meeting is not None
    alone = replace(zero, meeting=replace(zero.meeting, arrived=(zero.key,), expected=2, ended=True))
    judgement = judged_calls(call(0, "told"), call(1, "unreached", "Connection refused"), facts=(alone,))
    assert [finding.check for finding in judgement.roots] == ["launch/host-unreachable"]
    assert [(f.check, f.because_of) for f in judgement.findings[1:]] == [
        ("store/nodes-missing", "launch/host-unreachable")
    ]
