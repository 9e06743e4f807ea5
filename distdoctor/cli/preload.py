"""Early import of torch, begun before anything else of a ``check`` is loaded: nothing takes a run as long."""

from __future__ import annotations

import os
from collections.abc import Sequence

from distdoctor.cli.parsing import REMOTE, normalized
from distdoctor.model.stages import STAGES, needs_torch
from distdoctor.ranks.zygote_start import begin

WITHOUT_TORCH = ("--help", "-h", "--dry-run", "--hosts", "--hostfile", "--slurm-job", "--pods")
"""Flags with which a ``check`` does nothing in this process that needs torch."""


def begin_import(arguments: Sequence[str]) -> None:
    """Begin it if these words look like a ``check`` that will need it; if they are none, it is ended again."""
    until = stage_of(arguments)
    if until is not None:
        begin_for(until)


def begin_for(until: str) -> None:
    """Begin it if a run up to ``until`` will need it."""
    if until in STAGES and needs_torch(until) and _streams_are_open():
        begin()


def stage_of(arguments: Sequence[str]) -> str | None:
    """Return the last stage of this process by these words, as in ``--until``; None if they are no check."""
    words = normalized(arguments)
    if words[:1] == [REMOTE]:
        return words[2] if words[1:2] == ["--until"] and len(words) == 3 else None
    if words[:1] != ["check"] or any(word.partition("=")[0] in WITHOUT_TORCH for word in words):
        return None
    until = STAGES[-1]
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name == "--until":
            until = value if equals else following
    return until


def _streams_are_open() -> bool:
    """Return whether no file that is opened now becomes stdin, stdout or stderr."""
    try:
        return all(os.fstat(number) for number in range(3))
    except OSError:
        return False
