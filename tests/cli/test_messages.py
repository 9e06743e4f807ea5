"""``distdoctor explain MESSAGE``."""

from __future__ import annotations

import io
import sys

import pytest

from distdoctor.cli.app import run
from distdoctor.cli.explain import is_message
from tests.facts_builder import CHECKS


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
        ("OSError: [Errno 98] Address already in use", "fix: Give it another port"),
        ("exitcode: -9 (pid: 3)", "fix: Look first whether it was that"),
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


def test_what_it_may_be_is_told_where_a_message_shows_no_cause(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "RuntimeError: Connection reset by peer"]) == 3
    told = capsys.readouterr().out
    assert told.startswith("CANNOT TELL: ") and "it may be process/peer-died" in told and "get next: " in told


def test_a_message_that_no_check_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "all is well"]) == 3
    assert "no check knows this message" in capsys.readouterr().out


def test_no_id_is_taken_for_a_message() -> None:
    for check in CHECKS:
        assert not is_message(check.id) and not is_message(f"{check.id}#2") and not is_message(check.id.upper())
