"""``distdoctor explain MESSAGE``."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from typing import Any

import pytest

from distdoctor.cli.app import run
from distdoctor.cli.explain import is_message
from distdoctor.cli.likely_causes import SYMPTOMS, Symptom, candidates_of
from tests.facts_builder import CHECKS
from tests.helpers.namespaces import ROOT

REPORTS = ROOT / "tests/logs/reports"


@pytest.mark.parametrize(
    ("message", "check"),
    [
        ("connect [127.0.1.1]:41904: Connection refused", "gloo/loopback-address"),
        (
            "The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: "
            "-98, name: EADDRINUSE, message: address already in use",
            "network/port-in-use",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.", "gpu/out-of-memory"),
    ],
)
def test_the_page_of_what_a_message_shows(message: str, check: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", message]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith(f"This message shows {check}: ")
    assert f"{check} (fail)" in rest and "What you see" in rest and "Fix" in rest


def test_the_remedy_where_it_is_not_that_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    for message, fix in (
        ("OSError: [Errno 98] Address already in use", "fix: Give the program another port"),
        ("RuntimeError: Address already in use", None),
    ):
        assert run(["explain", message]) == 0
        second = capsys.readouterr().out.splitlines()[1:3]
        assert any(line.startswith(fix or "fix: ") for line in second) is bool(fix)


def test_a_message_of_several_lines_on_stdin(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    x\nKeyError: 1\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert run(["explain", "-"]) == 0
    assert capsys.readouterr().out.startswith("This message shows process/exception: ")


COMMON = {
    "Connection refused": "gloo/loopback-address",
    "timed out": "collective/rank-missing",
    "DistNetworkError": "network/port-in-use",
    "exitcode: -9": "process/killed-by-oom",
    "Killed": "process/killed-by-oom",
    "Broken pipe": "process/peer-died",
    "RuntimeError: Connection reset by peer": "process/peer-died",
    "No route to host": "network/port-rejected",
    "RuntimeError: NCCL error: unhandled system error": "network/wrong-interface",
    "ncclSystemError": "network/wrong-interface",
    "ncclRemoteError": "process/peer-died",
    "The client socket has timed out after 60000ms while connecting to (10.0.0.1, 29500).": "network/master-not-node0",
}


@pytest.mark.parametrize("message", COMMON)
def test_a_common_message_leads_to_its_likely_causes(message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", message]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "INCONCLUSIVE: this message alone does not prove its cause."
    causes = [line for line in lines if re.match(r" +\d+\. [\w-]+/[\w-]+: ", line)]
    assert 3 <= len(causes) <= 7 and causes[0].startswith(f"  1. {COMMON[message]}: ")
    assert all(re.match(r" {7}\S.*    # ", lines[lines.index(line) + 1]) for line in causes)


@pytest.mark.parametrize("message", ["Address already in use", "Segmentation fault", "CUDA out of memory"])
def test_what_a_message_proves_comes_with_what_may_have_caused_it(
    message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", message]) == 0
    told = capsys.readouterr().out
    assert told.startswith("This message shows ") and "Likely causes, most likely first." in told


def test_the_commands_name_the_remote_side_of_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    run(["explain", "connect [10.0.0.7]:41904: No route to host"])
    assert "ip route get 10.0.0.7 " in capsys.readouterr().out
    run(["explain", "connection to $(reboot):29500 refused: Connection refused"])
    assert "reboot" not in capsys.readouterr().out


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=lambda symptom: symptom.name)
def test_the_causes_are_those_of_the_catalogue_and_their_commands_can_be_pasted(symptom: Symptom) -> None:
    assert {cause.check for cause in symptom.causes} <= {check.id for check in CHECKS}
    for one in candidates_of(symptom, "connect to [fd00::1]:29500"):
        assert "{" not in one.next and len(one.next.split()) <= 12
        subprocess.run(["bash", "-n", "-c", one.command.replace("LOGS...", "LOGS")], check=True)


@cache
def reports() -> list[tuple[dict[str, Any], str]]:
    """Return the public reports, each with its text."""
    cases = json.loads((REPORTS / "index.json").read_text())
    return [(case, (REPORTS / case["file"]).read_text(errors="replace")) for case in cases]


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=lambda symptom: symptom.name)
def test_the_order_is_that_of_the_public_reports(symptom: Symptom) -> None:
    """Of the causes that the reports with this message have; the others have no count."""
    counts: Counter[str] = Counter()
    for case, text in reports():
        if re.search(symptom.pattern, text, re.IGNORECASE):
            counts.update(case["candidates"] if case["expect"] == "cannot-tell" else [case["expect"]])
    known = [counts[cause.check] for cause in symptom.causes if counts[cause.check]]
    assert known == sorted(known, reverse=True), [(cause.check, counts[cause.check]) for cause in symptom.causes]


def test_a_message_that_no_check_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "all is well"]) == 3
    told = capsys.readouterr().out
    assert "no check knows this message" in told and "diagnose LOGS..." in told and "similar" not in told
    assert run(["explain", "some mlx5 completion trouble"]) == 3
    assert "Checks with similar messages:\n  nccl/infiniband-unreachable: " in capsys.readouterr().out


def test_checks_of_a_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    gloo = [check.id for check in CHECKS if check.id.startswith("gloo/")]
    for words in (["explain", "gloo"], ["list", "gloo"], ["list", "gloo/*"], ["explain", "GLOO/".lower()]):
        assert run(words) == 0
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if "gloo/" in line][
            : len(gloo)
        ] == gloo
    assert run(["list", "nccl/infiniband", "--json"]) == 0
    assert {one["stage"] for one in json.loads(capsys.readouterr().out)} == {"nccl"}
    assert run(["list", "gluu"]) == 2
    assert "no check begins with 'gluu'" in capsys.readouterr().err


def test_no_id_is_taken_for_a_message() -> None:
    for check in CHECKS:
        assert not is_message(check.id) and not is_message(f"{check.id}#2") and not is_message(check.id.upper())
