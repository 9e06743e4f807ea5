"""A check that nobody waits for any more, and one that is interrupted while it waits."""

from __future__ import annotations

import json
import signal
import subprocess

from tests.helpers.runs import listens, node, started
from tests.helpers.servers import unused_port


def waits(process: subprocess.Popen[str], words: str) -> None:
    """Return once it says so on stderr."""
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return
    raise AssertionError(f"it never said {words!r}")


def test_the_remote_side_of_an_ssh_that_was_ended_ends() -> None:
    """It would wait for --wait, and be counted among the nodes of the next run."""
    with started(*node(1, unused_port(), "--wait", "60")) as process:
        waits(process, "environment: ok")
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        process.stderr.close()
        assert process.wait(40) == 128 + signal.SIGHUP


def test_a_reader_of_one_of_the_two_is_enough() -> None:
    with started(*node(1, unused_port(), "--wait", "5", "--timeout", "5")) as process:
        waits(process, "environment: ok")
        assert process.stderr is not None
        process.stderr.close()
        assert process.stdout is not None
        assert json.loads(process.stdout.read())["verdict"] in ("fail", "incomplete")


def test_a_signal_while_others_are_waited_for_is_an_interruption_and_no_failure() -> None:
    """The missing node is named; a problem that waiting may still cure is a note, and no finding."""
    for number, began in ((signal.SIGINT, "Interrupted after"), (signal.SIGTERM, "Ended by SIGTERM after")):
        for rank, other, notes in ((0, "node1", 0), (1, "node0", 1)):
            port = unused_port()
            with started(*node(rank, port, "--wait", "60")) as process:
                if rank == 0:
                    listens(port)
                waits(process, "so far: ")
                process.send_signal(number)
                out, _ = process.communicate(timeout=30)
                report = json.loads(out)
                assert process.returncode == 128 + number
                failures = [finding["check"] for finding in report["findings"] if finding["severity"] == "fail"]
                assert (report["verdict"], failures) == ("incomplete", [])
                told = report["details"]["interrupted"]
                assert told.startswith(began) and told.endswith(f"; {other} had not joined")
                assert {one["name"] for one in report["nodes"] if not one["arrived"]} == {other}
                assert f"interrupted by {number.name}" in report["notes"][0]
                assert sum(note.startswith("so far: ") and "refused" in note for note in report["notes"]) == notes
