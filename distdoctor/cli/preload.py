"""The import of torch, begun before anything else of a ``check`` is loaded: nothing takes a run as long."""

from __future__ import annotations

import os
from collections.abc import Sequence

from distdoctor.cli.parsing import REMOTE, normalized
from distdoctor.model.stages import STAGES, needs_torch
from distdoctor.ranks.zygote_start import begin

ELSEWHERE = ("--help", "-h", "--dry-run", "--hosts", "--hostfile", "--slurm-job", "--pods")
"""With one of these, a ``check`` does nothing in this process that needs torch."""


def begin_import(arguments: Sequence[str]) -> None:
    """Begin it where these words seem to be a ``check`` that will need it; if they are none, it is ended again."""
    until = stage_of(arguments)
    if until is not None:
        begin_for(until)


def begin_for(until: str) -> None:
    """Begin it where a run as high as ``until`` will need it."""
    if until in STAGES and needs_torch(until) and _streams_are_open():
        begin()


def stage_of(arguments: Sequence[str]) -> str | None:
    """Return how high these words have this process climb, as ``--until`` says it; None where they seem to be no
    check."""
    words = normalized(arguments)
    if words[:1] == [REMOTE]:
        return words[2] if words[1:2] == ["--until"] and len(words) == 3 else None
    if words[:1] != ["check"] or any(word.partition("=")[0] in ELSEWHERE for word in words):
        return None
    until = STAGES[-1]
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name == "--until":
            until = value if equals else following
    return until


def _streams_are_open() -> bool:
    """Return whether nothing that is opened now becomes stdin, stdout or stderr."""
    try:
        return all(os.fstat(number) for number in range(3))
    except OSError:
        return False
