"""A check in a process of its own, for a notebook or a script: its event loop, threads and signal handlers stay as they
are, and what the check leaves in its own environment, or a torch that crashes, is not the caller's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from distdoctor.own_path import package_parent

ENDING_SECONDS = 5.0
"""How long a check that is to end may take to tell what it knows."""


@dataclass(frozen=True)
class Ended:
    """How it ended: its exit status, its report as the JSON document (None where there is none), and its stderr."""

    status: int
    report: dict[str, Any] | None
    said: str


def check(*flags: str, env: Mapping[str, str] | None = None, timeout: float | None = None) -> Ended:
    """``distdoctor check`` with these flags, in this process's environment and ``env`` beside it.

    ``timeout`` seconds at most; the check ends by itself after --wait and --timeout. May be called in any thread, also
    while an event loop runs there. Interrupted, it ends the check before it lets the interrupt through.
    """
    variables = {**os.environ, **(env or {})}
    parent = package_parent()
    path = variables.get("PYTHONPATH", "")
    if parent not in path.split(os.pathsep):
        variables["PYTHONPATH"] = f"{parent}{os.pathsep}{path}" if path else parent
    # A session of its own: Ctrl-C in the caller's terminal is the caller's to answer.
    process = subprocess.Popen(
        [sys.executable, "-m", "distdoctor", "check", *flags, "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=variables,
        start_new_session=True,
    )
    with process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            out, err = _end(process)
        except BaseException:
            _end(process)
            raise
    return Ended(process.returncode, _document(out), err.decode("utf-8", "replace"))


def _end(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """End it, by force where it does not by itself."""
    process.terminate()
    try:
        return process.communicate(timeout=ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()


def _document(out: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(out)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
