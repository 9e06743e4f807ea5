"""A message that was broken into lines, as terminals and mails do it, says what it says in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import judged, roots

GLOO = "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:152]\n"
SERVES = "INFO 02-26 11:22:10 [metrics.py:455] Avg prompt throughput: 10.0 tokens/s, Running: 1 reqs\n"


def gloo_timeout(address: str) -> str:
    return f"{GLOO}  timed out connecting: SO_ERROR: Connection refused, remote=[{address}]:14215\n  (size=16)\n"


def test_a_name_that_leads_to_the_own_host(tmp_path: Path) -> None:
    assert roots(tmp_path, gloo_timeout("127.0.1.1")) == [("gloo/loopback-address", ())]


def test_loopback_may_be_right_on_one_host(tmp_path: Path) -> None:
    found = judged(tmp_path, gloo_timeout("127.0.0.1"))
    assert found.verdict == "incomplete" and "gloo/loopback-address" in [one.check for one in found.candidates]


@pytest.mark.parametrize(
    "line", [gloo_timeout("10.0.0.2"), gloo_timeout("127.0.1.1")[len(GLOO) :]], ids=["another", "without gloo"]
)
def test_another_address_and_another_program(tmp_path: Path, line: str) -> None:
    found = judged(tmp_path, line)
    told_of = {one.check for one in found.findings} | {one.check for one in found.candidates}
    assert "gloo/loopback-address" not in told_of


def test_who_waited_for_ray_and_went_on_did_not_fail(tmp_path: Path) -> None:
    waits = "INFO 02-26 11:14:53 [ray_utils.py:214] Waiting for creating a placement group of specs for 310 seconds.\n"
    assert judged(tmp_path, waits).verdict == "incomplete"
    for text in (waits + SERVES * 3, waits.replace("310", "10")):
        found = judged(tmp_path, text)
        assert found.verdict != "incomplete" and not found.findings and not found.candidates
