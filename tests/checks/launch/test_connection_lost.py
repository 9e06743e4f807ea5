from __future__ import annotations

from dataclasses import replace

import pytest

from tests.clusters.calls import call, judged_calls
from tests.facts_builder import healthy


def test_lost_in_the_middle_and_ended_by_itself() -> None:
    failed = call(2, "failed", "distdoctor: crashed: OSError: disk", status=3)
    first, second = judged_calls(call(0, "told"), call(1, "lost"), failed).findings
    assert (first.check, first.nodes) == ("launch/connection-lost", ("host1",))
    assert first.evidence == ("host1: ssh ended with status 255 after 1.5 s",)
    assert (second.nodes, second.evidence[0][-4:]) == (("host2",), "disk")


def test_that_it_did_not_come_follows_from_it() -> None:
    zero = healthy(2)[0]
    assert zero.meeting is not None
    alone = replace(zero, meeting=replace(zero.meeting, arrived=(zero.key,), expected=2, ended=True))
    judgement = judged_calls(call(0, "told"), call(1, "unreached", "Connection refused"), facts=(alone,))
    assert [finding.check for finding in judgement.roots] == ["launch/host-unreachable"]
    assert [(f.check, f.because_of) for f in judgement.findings[1:]] == [
        ("store/nodes-missing", "launch/host-unreachable")
    ]


@pytest.mark.parametrize(("status", "named"), [(143, ["host2"]), (255, ["host0", "host1", "host2"])])
def test_what_slurm_ended_because_a_node_of_the_job_is_down(status: int, named: list[str]) -> None:
    ended = (replace(call(rank, "lost"), way="srun", status=status) for rank in range(2))
    down = replace(call(2, "unreached", "Communication connection failure"), way="srun", status=233)
    findings = judged_calls(*ended, down).findings
    assert sorted(name for finding in findings for name in finding.nodes) == named
