from __future__ import annotations

import pytest

from distdoctor.model.host_calls import CallOutcome
from tests.clusters.calls import call, judged_calls

CHANGED = (
    "@@@@@@@@@@@@@@@@@@@@@@@",
    "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @",
    "Offending ED25519 key in /home/u/.ssh/known_hosts:7",
    "Host key for host1 has changed and you have requested strict checking.",
    "Host key verification failed.",
)
SAID = [
    (CHANGED, "its host key has changed", "ssh-keygen -f /home/u/.ssh/known_hosts -R host1"),
    (("Host key verification failed.",), "its host key is unknown here", "`ssh host1 true`"),
    (("u@host1: Permission denied (publickey,password).",), "it accepts none of your keys", "ssh-copy-id host1"),
    (
        ("ssh: Could not resolve hostname host1: Name or service not known",),
        "its name does not resolve",
        "Correct the name",
    ),
    (("ssh: connect to host host1 port 22: Connection refused",), "nothing listens on the ssh port", "its sshd"),
    (("ssh: connect to host host1 port 22: Connection timed out",), "it does not answer", "BatchMode=yes host1 true"),
]
"""Message of ssh, its reason and the fix."""


@pytest.mark.parametrize(("said", "why", "fix"), SAID, ids=[why for _, why, _ in SAID])
def test_each_cause_has_its_own_remedy(said: tuple[str, ...], why: str, fix: str) -> None:
    (finding,) = judged_calls(call(0, "told"), call(1, "unreached", *said)).findings
    assert finding.check == "launch/host-unreachable" and finding.nodes == ("host1",)
    assert why in finding.summary and fix in finding.fixes[0].text
    assert said[-1] in finding.evidence[0] and "@@@" not in finding.evidence[0]


def test_hosts_with_one_cause_are_one_finding_and_the_verdict_is_incomplete() -> None:
    refused = "ssh: connect to host h port 22: Connection refused"
    judgement = judged_calls(*(call(rank, "unreached", refused) for rank in range(3)), call(3, "silent", status=None))
    assert [finding.nodes for finding in judgement.findings] == [("host0", "host1", "host2"), ("host3",)]
    assert judgement.verdict == "incomplete"


def test_srun_and_kubectl_have_words_of_their_own() -> None:
    over = call(
        0, "unreached", "srun: error: Unable to confirm allocation for job 7: Invalid job id specified", way="srun"
    )
    gone = call(1, "unreached", 'Error from server (NotFound): pods "host1" not found', status=1, way="kubectl")
    first, second = judged_calls(over, gone).findings
    assert "srun cannot reach host0: the job has ended" in first.summary and "sinfo -N -n host0" in first.fixes[0].text
    assert (
        "kubectl cannot reach host1: no such pod" in second.summary and "kubectl get pod host1" in second.fixes[0].text
    )


@pytest.mark.parametrize(
    ("said", "why", "fix"),
    [
        (
            "Zero Bytes were transmitted or received",
            "slurmd there rejects SLURM's message",
            "`munge -n | ssh host1 unmunge`",
        ),
        ("Communication connection failure", "no slurmd answers there", "systemctl status slurmd"),
    ],
)
def test_a_step_that_slurmd_does_not_start(said: str, why: str, fix: str) -> None:
    words = f"srun: error: Task launch for StepId=1.1 failed on node host1: {said}"
    (finding,) = judged_calls(call(0, "told"), call(1, "unreached", words, status=141, way="srun")).findings
    assert why in finding.summary and fix in finding.fixes[0].text


def test_who_told_its_facts_or_was_broken_off_here_is_no_finding() -> None:
    assert not judged_calls(call(0, "told", "Warning: Permanently added host0"), call(1, "stopped")).findings


def test_of_many_hosts_a_sentence_names_some() -> None:
    """All of them stand below it, folded."""
    (finding,) = judged_calls(
        *(call(rank, "unreached", "ssh: connect: Connection refused") for rank in range(64))
    ).findings
    assert finding.summary.startswith("ssh cannot reach host0, host1, host2, host3, host4, host5 and 58 more:")
    assert len(finding.nodes) == 64


def test_what_is_said_of_several_hosts_is_said_of_all() -> None:
    calls = (call(rank, "unreached", "ssh: Could not resolve hostname gpu") for rank in range(2))
    (finding,) = judged_calls(*calls).findings
    assert finding.summary == "ssh cannot reach host0 and host1: their name does not resolve."


@pytest.mark.parametrize(
    ("outcome", "line", "check", "fix"),
    [
        ("unreached", "Ray started no actor with 2 GPUs there within 25 s", "host-unreachable", "End the Ray job"),
        ("unreached", "The actor died unexpectedly.", "host-unreachable", "ray start --address"),
        ("lost", "", "connection-lost", "raylet.out"),
        ("absent", "", "distdoctor-missing", "Ray's workers"),
    ],
)
def test_under_ray_the_fix_is_ray_s(outcome: CallOutcome, line: str, check: str, fix: str) -> None:
    (finding,) = judged_calls(call(0, "told"), call(1, outcome, *filter(None, [line]), way="ray")).findings
    assert finding.check == f"launch/{check}"
    assert fix in finding.fixes[0].text
