"""What a shell offers when it completes a word of the command line. Imports nothing heavy: it runs at every Tab."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from distdoctor.model.stages import STAGE_TEXTS, STAGES
from distdoctor.render.exit_status import FAIL_ON
from distdoctor.render.formats import FORMATS

VARIABLE = "_DISTDOCTOR_COMPLETE"
"""Set by the shell's part of the completion."""


def completes(words: Sequence[str]) -> bool:
    """Return whether this start is about completion: it then ends where its parser says."""
    return VARIABLE in os.environ or any(word.startswith(("--install-comp", "--show-comp")) for word in words)


def stages(incomplete: str) -> list[tuple[str, str]]:
    """The stages, each with what it looks at."""
    return [(stage, STAGE_TEXTS[stage]) for stage in _begun(STAGES, incomplete)]


def check_ids(incomplete: str) -> list[str]:
    """The ids of the built-in checks, by the names of their files: none of them is loaded."""
    from distdoctor.judge.catalog import BadCheck, built_in_folder

    try:
        files = sorted(built_in_folder().glob("*/*.py"))
    except (BadCheck, OSError):
        return []
    ids = [f"{file.parent.name}/{file.stem.replace('_', '-')}" for file in files if not file.name.startswith("_")]
    return _begun(ids, incomplete)


def outputs(incomplete: str) -> list[str]:
    """The formats of a report."""
    return _begun(FORMATS, incomplete)


def floors(incomplete: str) -> list[str]:
    """Return what --fail-on takes."""
    return _begun(FAIL_ON, incomplete)


def backends(incomplete: str) -> list[str]:
    """The backends that jobs have."""
    return _begun(("auto", "gloo", "nccl", "cpu:gloo,cuda:nccl"), incomplete)


def commands(incomplete: str) -> list[str]:
    """The commands that there is help for."""
    from distdoctor.cli.parsing import COMMANDS

    return _begun(COMMANDS, incomplete)


def _begun(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]
