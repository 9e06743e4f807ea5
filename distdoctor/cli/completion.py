"""Completions of the command line for a shell. Imports nothing heavy: it runs at every Tab."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from distdoctor.model.stages import STAGE_TEXTS, STAGES
from distdoctor.render.exit_status import FAIL_ON
from distdoctor.render.formats import FORMATS

VARIABLE = "_DISTDOCTOR_COMPLETE"
"""Variable that the shell's part of the completion sets."""


def completes(words: Sequence[str]) -> bool:
    """Return whether this start is a shell completion, which ends in its parser."""
    return VARIABLE in os.environ or any(word.startswith(("--install-comp", "--show-comp")) for word in words)


def stages(incomplete: str) -> list[tuple[str, str]]:
    return [(stage, STAGE_TEXTS[stage]) for stage in _begun(STAGES, incomplete)]


def check_ids(incomplete: str) -> list[str]:
    """Return the ids of the built-in checks, by the names of their files: none of them is loaded."""
    from distdoctor.judge.catalog import BadCheck, built_in_folder

    try:
        files = sorted(built_in_folder().glob("*/*.py"))
    except (BadCheck, OSError):
        return []
    ids = [f"{file.parent.name}/{file.stem.replace('_', '-')}" for file in files if not file.name.startswith("_")]
    return _begun(ids, incomplete)


def outputs(incomplete: str) -> list[str]:
    """Return the formats of a report."""
    return _begun(FORMATS, incomplete)


def floors(incomplete: str) -> list[str]:
    """Return the values of --fail-on."""
    return _begun(FAIL_ON, incomplete)


def backends(incomplete: str) -> list[str]:
    return _begun(("auto", "gloo", "nccl", "cpu:gloo,cuda:nccl"), incomplete)


def commands(incomplete: str) -> list[str]:
    from distdoctor.cli.parsing import COMMANDS

    return _begun(COMMANDS, incomplete)


def _begun(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]
