"""The token of a run: where it may stand, and what a node without it is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from distdoctor.model.launch_settings import LEAST_LENGTH
from distdoctor.session.protocol.trust import NotAuthentic, NotSealed, Seal, Sealed
from tests.helpers.hostile import FURTHER, TOKEN, USUAL_BACKEND
from tests.helpers.runs import ended, environment, failures, family, node, roots, started
from tests.helpers.servers import unused_port

KEY = "distdoctor/0123456789abcdef/m/3/2"


def test_what_was_sealed_is_opened_by_who_has_the_token_and_nobody_else() -> None:
    value = Seal(TOKEN).close(KEY, b"data")
    assert Seal(TOKEN).open(KEY, value) == b"data" and TOKEN.encode() not in value
    with pytest.raises(NotAuthentic):
        Seal("another token that is long").open(KEY, value)
    with pytest.raises(Sealed):
        Seal(None).open(KEY, value)
    with pytest.raises(NotSealed):
        Seal(TOKEN).open(KEY, b"data")
    assert Seal(None).open(KEY, Seal(None).close(KEY, b"data")) == b"data"


@pytest.mark.parametrize("change", [KEY.replace("m/3/2", "m/3/3"), KEY.replace("m/3", "m/4"), KEY.replace("0", "f")])
def test_no_message_can_be_moved_or_replayed(change: str) -> None:
    """To another place of the sequence, another member, another run."""
    with pytest.raises(NotAuthentic):
        Seal(TOKEN).open(change, Seal(TOKEN).close(KEY, b"data"))


@pytest.mark.parametrize("place", [0, 25, 60, -1])
def test_no_bit_can_be_changed(place: int) -> None:
    value = bytearray(Seal(TOKEN).close(KEY, b"some data"))
    value[place] ^= 1
    with pytest.raises(NotAuthentic):
        Seal(TOKEN).open(KEY, bytes(value))


def test_a_token_that_can_be_guessed_is_refused() -> None:
    for given in (["--token", "x" * (LEAST_LENGTH - 1)], []):
        done = subprocess.run(
            [sys.executable, "-m", "distdoctor", "check", *given],
            env=environment(**({} if given else {"DISTDOCTOR_TOKEN": "short"})),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (
            done.returncode == 2 and "too short" in done.stderr and "short" not in done.stderr.replace("too short", "")
        )


def shows_token(pid: int) -> bool:
    """Return whether the token stays in what anybody may read of the process; before its exec, that is its parent's."""
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        try:
            told = Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False
        if TOKEN.encode() not in told:
            return False
        time.sleep(0.02)
    return True


@USUAL_BACKEND
def test_the_token_is_in_no_report_no_facts_and_no_process_of_ours(libuv: str, tmp_path: Path) -> None:
    port, seen = unused_port(), 0
    flags = ("--save", str(tmp_path))
    variables = {"USE_LIBUV": libuv, "DISTDOCTOR_TOKEN": TOKEN}
    with started(*node(0, port, *flags), **variables) as zero, started(*node(1, port, *flags), **variables) as one:
        deadline = time.monotonic() + 60
        while zero.poll() is None and time.monotonic() < deadline:
            for pid in family(zero.pid)[1:]:
                seen += 1
                assert not shows_token(pid)
            time.sleep(0.05)
        results = [ended(zero), ended(one)]
    assert [(status, failures(report)) for status, report in results] == [(0, []), (0, [])]
    assert seen > 0 and TOKEN not in json.dumps(results)
    assert len(os.listdir(tmp_path)) == 2
    assert all(TOKEN not in path.read_text() for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("tokens", "says", "called"),
    [
        pytest.param((TOKEN, ""), "has no DISTDOCTOR_TOKEN", "called without the token", id="missing"),
        pytest.param(("", TOKEN), "has none", "called with a token", id="unexpected", marks=FURTHER),
        pytest.param(
            (TOKEN, "another token than that"),
            "a different DISTDOCTOR_TOKEN",
            "called with another token",
            id="different",
        ),
    ],
)
def test_a_token_on_one_side_is_incomplete_and_both_sides_name_it(
    tokens: tuple[str, str], says: str, called: str
) -> None:
    port = unused_port()
    limits = ("--wait", "30", "--timeout", "9")
    with (
        started(*node(0, port, *limits), DISTDOCTOR_TOKEN=tokens[0]) as zero,
        started(*node(1, port, *limits), DISTDOCTOR_TOKEN=tokens[1]) as one,
    ):
        status, report = ended(one)
        assert zero.poll() is None and report["seconds"] < 20, "it did not wait for node 0's end"
        assert zero.stderr is not None
        assert any(f"(127.0.0.1) {called}" in line for line in zero.stderr), "node 0 says at once who called"
        zero.send_signal(signal.SIGINT)
        _, zeros = ended(zero)
    assert (status, report["verdict"], roots(report)) == (3, "incomplete", {"store/token-mismatch"})
    assert zeros["verdict"] == "incomplete"
    assert roots(zeros) - {"host/master-port-ephemeral"} == {"store/token-mismatch"}
    for told in (report, zeros):
        (finding,) = (f for f in told["findings"] if f["id"] == "store/token-mismatch")
        assert says in finding["summary"] and "DISTDOCTOR_TOKEN" in json.dumps(finding["fixes"])
        assert not any(token and token in json.dumps(told) for token in tokens)
