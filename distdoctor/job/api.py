"""API for a job's script: ``preflight()`` and ``explain()``. It loads next to nothing; a process of its own does the
work.

The caller's event loop, threads, signal handlers and devices stay as they are, in a worker of torchrun, a child of
``torch.multiprocessing.spawn`` and a notebook alike. Both functions block; in an event loop, run them in a thread
(``await asyncio.to_thread(distdoctor.preflight)``).
"""

from __future__ import annotations

import itertools
import os
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from distdoctor.job.subprocess import ask
from distdoctor.model.launch_settings import (
    LOCAL_RANK,
    MASTER_ADDR,
    MASTER_PORT,
    NPROC_PER_NODE,
    RANK,
    VARIABLE,
    WORLD_SIZE,
)
from distdoctor.model.launch_variables import AGENT_STORE

MARGIN_SECONDS = 20.0
"""Seconds of a check beside --wait and --timeout: to start, and to end."""
EXPLAIN_SECONDS = 60.0
LONGEST = 1 << 20
"""Limit of a message's characters: its end is read."""
_turns = itertools.count(1)
_VARIABLES = {
    "rank": RANK.variables[0],
    "world_size": WORLD_SIZE.variables[0],
    "local_rank": LOCAL_RANK.variables[0],
    "local_world_size": NPROC_PER_NODE.variables[0],
    "master_addr": MASTER_ADDR.variables[0],
    "master_port": MASTER_PORT.variables[0],
    "token": VARIABLE,
}


@dataclass(frozen=True)
class Diagnosis:
    """Result of distdoctor. ``str()`` returns its text."""

    verdict: str
    """``pass``, ``warn``, ``fail`` or ``incomplete``."""
    report: dict[str, Any] = field(repr=False)
    """Whole report: the document that ``distdoctor check --json`` prints, with the same field names."""
    text: str = field(repr=False)
    """Report as text. Of many ranks the one that speaks for all has it whole, the others a line per finding."""

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Root causes: ``id``, ``title``, ``summary``, ``nodes``, ``ranks``, ``fixes`` ... of each."""
        return [one for one in self.report.get("findings", ()) if one.get("because_of") is None]

    def __str__(self) -> str:
        return self.text


class PreflightError(RuntimeError):
    """The job as planned would fail or hang, or not all of it could be checked; :attr:`diagnosis` has the reason."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(diagnosis)
        self.diagnosis = diagnosis

    @property
    def report(self) -> dict[str, Any]:
        """Whole report: the document that ``distdoctor check --json`` prints."""
        return self.diagnosis.report

    def __str__(self) -> str:
        return f"{self.diagnosis.verdict}\n{self.diagnosis.text}"


def preflight(
    backend: str | None = None,
    init_method: str | None = None,
    *,
    rank: int | None = None,
    world_size: int | None = None,
    local_rank: int | None = None,
    local_world_size: int | None = None,
    master_addr: str | None = None,
    master_port: int | None = None,
    wait: float = 60.0,
    timeout: float = 60.0,
    until: str = "collective",
    try_fixes: bool = True,
    fail_on: str = "fail",
    ignore: Sequence[str] = (),
    checks: Sequence[str | os.PathLike[str]] = (),
    save: str | os.PathLike[str] | None = None,
    token: str | None = None,
    progress: bool = False,
) -> Diagnosis:
    """Check this job, right before ``torch.distributed.init_process_group()``, as ``distdoctor check`` would.

    Every rank of the job calls it, with its arguments of ``init_process_group()``, and is one rank of the check; there
    is one report. Missing arguments are read from the environment, as PyTorch does. Without any rank it checks this
    machine, with ranks of its own.

    ``wait`` bounds the rendezvous of the ranks, ``timeout`` everything after it (seconds); ``until``, ``try_fixes``,
    ``ignore``, ``checks``, ``save`` and ``token`` as the flags of ``distdoctor check``. ``progress``: print the
    progress on stderr.

    Returns the diagnosis. Raises PreflightError if its verdict is at or above ``fail_on`` (``fail``, ``warn``;
    ``never``: not at all), and if a rank did not join; ValueError for an argument that makes no sense. If distdoctor
    itself fails, there is a RuntimeWarning, and the verdict is ``incomplete``. If the process group is up already, as
    in Ray Train's workers, the ranks of the check meet in its store.
    """
    if fail_on not in ("fail", "warn", "never"):
        raise ValueError(f"fail_on={fail_on!r} is none of fail, warn, never")
    given = {
        "rank": rank,
        "world_size": world_size,
        "local_rank": local_rank,
        "local_world_size": local_world_size,
        "master_addr": master_addr,
        "master_port": master_port,
        "token": token,
    }
    env = {**os.environ, **{_VARIABLES[name]: str(value) for name, value in given.items() if value is not None}}
    order = {
        "task": "check",
        "turn": next(_turns),
        "flags": {"backend": backend, "init_method": None if init_method in (None, "env://") else init_method},
        "how": {
            "wait": float(wait),
            "timeout": float(timeout),
            "until": until,
            "try_fixes": try_fixes,
            "save": None if save is None else os.fspath(save),
        },
        "report": {
            "fail_on": fail_on,
            "ignore": [*ignore] or None,
            "checks": [os.fspath(one) for one in checks] or None,
            "quiet": not progress,
        },
    }
    if master_port is None and init_method in (None, "env://") and (group := _group_of(env)) is not None:
        store = _store_of(group)
        if store is None:
            return _failed(
                "the process group is up already, and its store is no TCPStore: call preflight() before "
                "init_process_group(), or with a port, the same in each rank (master_port=...)"
            )
        env = {**env, **store}
        order["own_store"] = True
    answer = ask(order, env, wait + timeout + MARGIN_SECONDS, aloud=progress)
    if answer.told is None:
        return _failed(answer.error)
    diagnosis = _diagnosis(answer.told)
    if answer.told.get("wrong"):
        if (init_method or "").startswith("file://") and master_addr is None:  # the job itself needs none
            return _failed(f"{diagnosis.text} (master_addr=...)")
        raise ValueError(diagnosis.text)
    if answer.told.get("status") and fail_on != "never":
        if diagnosis.findings:
            raise PreflightError(diagnosis)
        warnings.warn(f"distdoctor could not look at everything: {diagnosis.text}", RuntimeWarning, stacklevel=2)
    return diagnosis


def explain(error: BaseException | str) -> Diagnosis:
    """Return the diagnosis of an error: of an exception, with its causes, or of a message.

    The verdict is ``fail`` if it shows a cause, with the finding and its fix, and ``incomplete`` if it only shows that
    something failed, with possible causes (``report["candidates"]``), or is unknown. It never raises.
    """
    text = error if isinstance(error, str) else "".join(traceback.format_exception(error))
    answer = ask({"task": "explain", "text": text[-LONGEST:]}, os.environ, EXPLAIN_SECONDS)
    return _failed(answer.error) if answer.told is None else _diagnosis(answer.told)


def _group_of(env: Mapping[str, str]) -> Any:
    """Return torch.distributed if the ranks of the job have formed their group already, with a store that is not that
    of an agent; else None."""
    group = sys.modules.get("torch.distributed")
    up = group is not None and group.is_available() and group.is_initialized()
    return group if up and env.get(AGENT_STORE) != "True" else None


def _store_of(group: Any) -> dict[str, str] | None:
    """Return address and port of the job's own store, and this rank, as variables; None if it is no TCPStore."""
    store = group.distributed_c10d._get_default_store()
    while isinstance(store, group.PrefixStore):
        store = store.underlying_store
    if not isinstance(store, group.TCPStore):
        return None
    values = {MASTER_ADDR: store.host, MASTER_PORT: store.port}
    values |= {RANK: group.get_rank(), WORLD_SIZE: group.get_world_size()}
    return {setting.variables[0]: str(value) for setting, value in values.items()}


def _diagnosis(answer: Mapping[str, Any]) -> Diagnosis:
    report = answer.get("report") or {}
    return Diagnosis(str(report.get("verdict", "incomplete")), report, str(answer.get("text", "")).strip())


def _failed(error: str) -> Diagnosis:
    text = f"distdoctor itself could not go on: {error}"
    warnings.warn(text, RuntimeWarning, stacklevel=3)
    return Diagnosis(
        "incomplete", {"schema_version": 1, "verdict": "incomplete", "findings": [], "notes": [text]}, text
    )
