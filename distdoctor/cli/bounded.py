"""A command of distdoctor in a process of its own that ends within a bound, for servers that answer others."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from typing import Any

from distdoctor.job.subprocess import command, end
from distdoctor.model.launch_settings import LAUNCH_VARIABLES
from distdoctor.render.exit_status import FINDINGS, INCOMPLETE, OK


class NoAnswer(Exception):
    """The command printed no document; the text has the reason."""


def document(*words: str, seconds: float, given: str = "") -> Any:
    """Return the JSON document that a command prints. ``given`` is its stdin. Raises NoAnswer.

    Variables of a launch are left out: the server may have been started in a job, and the request is not about it.
    """
    if any("\0" in word for word in words):
        raise NoAnswer("a value has a NUL character")
    env: Mapping[str, str] = {name: value for name, value in os.environ.items() if name not in LAUNCH_VARIABLES}
    try:
        process = subprocess.Popen(
            command(*words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
        )
    except (OSError, ValueError) as err:
        raise NoAnswer(f"distdoctor could not be started: {err}") from None
    try:
        out, stderr = process.communicate(given.encode(errors="replace"), seconds)
    except subprocess.TimeoutExpired:
        end(process)
        raise NoAnswer(
            f"distdoctor {words[0]} did not end within {seconds:g} s, the limit of this call; run it in a shell"
        ) from None
    except BaseException:
        end(process)
        raise
    try:
        if process.returncode in (OK, FINDINGS, INCOMPLETE):
            return json.loads(out)
    except ValueError:
        pass
    lines = stderr.decode(errors="replace").strip().splitlines()
    reason = lines[-1] if lines else f"it ended with exit status {process.returncode}"
    raise NoAnswer(reason.removeprefix("distdoctor: "))
