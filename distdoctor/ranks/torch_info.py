"""Facts of torch from the process that imports it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from distdoctor.model.facts import TorchFailure, decode
from distdoctor.model.text import encodable
from distdoctor.probes.host import limits


@dataclass(frozen=True)
class TorchInfo:
    """Result of the import: torch's version, or the error."""

    version: str | None
    cuda: str | None = None
    backends: tuple[str, ...] = ()
    nccl: str | None = None
    error: str | None = None
    path: str | None = None
    """Folder it was imported from."""
    seconds: float | None = None
    """Seconds of the import."""
    failure: TorchFailure | None = None
    """Further observations of a failed import."""
    memory: int | None = None
    """Bytes of memory of its own of the process that imported it."""
    cpus: int | None = None
    """Number of CPUs on which that process may run then."""


def info(message: Mapping[str, Any], pid: int) -> TorchInfo:
    """Return the facts in the first message of the zygote ``pid``; a path in it may hold bytes that are no UTF-8."""
    message = encodable(message)
    failure = message.get("failure")
    return TorchInfo(
        message.get("torch"),
        message.get("cuda"),
        tuple(message.get("backends", ())),
        message.get("nccl"),
        message.get("error"),
        message.get("path"),
        message.get("seconds"),
        None if failure is None else decode(json.dumps(failure).encode(), TorchFailure),
        limits.own_memory(pid) if message.get("torch") else None,
        message.get("cpus"),
    )


def ended(status: int | None, printed: str, seconds: float) -> TorchInfo:
    """Return the facts if that process ended with ``status`` instead; ``printed`` is its last output."""
    number = -status if status is not None and status < 0 else None
    how = f"was ended by signal {number}" if number else f"ended with status {status}"
    how = "is out of touch" if status is None else how
    lines = {line.strip(": "): line for line in printed.splitlines()}  # a MemoryError comes in dozens
    said = " ".join(" ".join(lines.values()).split())
    failure = TorchFailure(signal=number, status=None if number else status, said=said)
    error = f"the process that imports torch {how}{f': {said}' if said else ''}"[:500]
    return TorchInfo(None, error=error, seconds=seconds, failure=failure)
