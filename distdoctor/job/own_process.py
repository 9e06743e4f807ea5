"""A distdoctor of its own, beside this process: whatever it does or fails at leaves this process as it is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from distdoctor.own_path import package_parent

INSIDE = "inside"
"""The command that takes its order from stdin; nothing that people type."""
PREFLIGHTS = ("quick", "full", "off")
"""What is checked before a job that ``run`` starts."""
ENDING_SECONDS = 5.0
"""How long it may take to end once it is asked to."""
_START = """
import sys
if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]
sys.path.insert(0, sys.argv.pop(1).rpartition("/")[0])
from distdoctor.__main__ import main
main()
"""
"""The same distdoctor, wherever the caller has it from. The folder it is in makes it known in a list of processes."""


@dataclass(frozen=True)
class Answer:
    """What came of an order."""

    told: dict[str, Any] | None
    """None where the other process failed at it."""
    error: str = ""
    """What it said on stderr then."""


def command(*words: str) -> list[str]:
    """The command line of a distdoctor with these words, under this Python and with its flags."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [sys.executable, *flags, "-c", _START, f"{package_parent()}/distdoctor", *words]


def ask(order: Mapping[str, Any], env: Mapping[str, str], seconds: float, *, aloud: bool = False) -> Answer:
    """Give an order, and wait for its answer, at most so many seconds. ``aloud``: its progress goes to stderr.

    It never raises for what goes wrong there; where this process is interrupted, the other one ends first.
    """
    try:
        process = subprocess.Popen(
            command(INSIDE),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if aloud else subprocess.PIPE,
            env=dict(env),
        )
    except (OSError, ValueError) as err:
        return Answer(None, f"it could not be started: {err}")
    try:
        out, said = process.communicate(json.dumps(order).encode(), seconds)
    except subprocess.TimeoutExpired:
        end(process)
        return Answer(None, f"it did not end within {seconds:.0f} s")
    except OSError as err:
        end(process)
        return Answer(None, str(err))
    except BaseException:
        end(process)
        raise
    try:
        told = json.loads(out)
    except ValueError:
        told = None
    error = (said or b"").decode(errors="replace").strip() or f"it ended with exit status {process.returncode}"
    return Answer(told, "") if isinstance(told, dict) else Answer(None, error)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, and see that it does."""
    process.terminate()
    try:
        process.wait(ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            try:
                stream.close()
            except OSError:  # what was still to be written to it
                pass
