"""Ray's sessions on this host: drivers and workers of Ray Train, and requests that wait for resources.

Ray writes the rank of a worker only into the worker's memory, so ranks are read from the log of Ray Train at their
start (train/_internal/backend_executor.py; train/v2/_internal/execution/worker_group/worker_group.py). The status of
the cluster is what the autoscaler writes every 5 s (autoscaler/_private/util.py, ``format_info_string``).
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from glob import escape, iglob
from pathlib import Path

from distdoctor.hang import proc
from distdoctor.model.facts import RayBundle, RayDemand, RayView
from distdoctor.model.launch_settings import LOCAL_RANK, NODE_RANK, NPROC_PER_NODE, RANK, WORLD_SIZE
from distdoctor.model.text import fit

TITLE = "ray::"
"""Prefix of the titles of Ray's workers (``ray::RayTrainWorker``)."""
TRAINS = ("TrainController", "TorchTrainer", "TrainTrainable", "RayTrainWorker", "_Inner.train")
"""Parts of the titles of actors of Ray Train."""
_TAIL = 1 << 18
"""Bytes at the end of a log that are read."""
_LATELY = 24_000
"""Bytes at the end of the autoscaler's log that cover at least the last minute: it repeats unmet requests every 35
s."""
_MOST_LOGS = 2000
_STATUS = "======== Autoscaler status:"
_IMPOSSIBLE = "No available node types can fulfill resource request"
_USAGE = re.compile(r"^\s*([\d.]+)/([\d.]+) ([\w:.-]+)(?: |$)", re.MULTILINE)
_DEMAND = re.compile(r"^\s*(\{.*\}.*?): \d+\+? pending (placement group|task)", re.MULTILINE)
_BUNDLE = re.compile(r"(\{[^{}]*\})(?: \* (\d{1,6}))?")
_STARTED = re.compile(r"Started (?:distributed worker processes|training worker group of size \d+):")
_WORKER = re.compile(r"ip=([\w.:]+), pid=(\d+)\) world_rank=(\d+), local_rank=(\d+), node_rank=(\d+)")

_VARIABLES = tuple(setting.variables[-1] for setting in (RANK, LOCAL_RANK, NODE_RANK, WORLD_SIZE, NPROC_PER_NODE))
"""Variables of a worker, as torchrun and Ray Train name them: GROUP_RANK for the node's rank."""


@dataclass(frozen=True)
class RayWorker:
    """Worker of Ray Train on this host."""

    group: int
    """Process that started it and all others of its group."""
    variables: dict[str, str]
    """RANK and the like, as Ray Train sets them inside the worker."""


@dataclass(frozen=True)
class Session:
    """Session whose raylet runs on this host."""

    raylet: int
    folder: Path
    """Folder as seen from here, through the raylet's root."""
    inside: str
    """Folder as Ray's processes see it."""
    address: str = ""
    """Address where other nodes join the cluster, such as ``10.0.0.1:6379``."""
    workers: dict[int, RayWorker] = field(default_factory=dict)
    groups: dict[int, dict[int, str]] = field(default_factory=dict)
    """Process that started a group of workers -> rank -> address of its node."""

    @property
    def name(self) -> str:
        """Return the session's name, such as ``session_2026-11-28_04-56-47_883164_30281``."""
        return os.path.basename(self.inside)


def sessions(pids: Iterable[int]) -> list[Session]:
    """Return the sessions of Ray on this host."""
    return [found for pid in pids if (found := _session(pid)) is not None]


def _session(pid: int) -> Session | None:
    if (proc.read_text(pid, "comm", 64) or "").strip() != "raylet":
        return None
    given = dict(word[2:].split("=", 1) for word in proc.command(pid) if word.startswith("--") and "=" in word)
    inside = given.get("session_dir", "")
    if not inside.startswith("/"):
        return None
    session = Session(pid, Path(f"/proc/{pid}/root{inside}"), inside, fit(given.get("gcs-address", "")))
    _read_workers(session, given.get("node_ip_address", ""))
    return session


def _read_workers(session: Session, address: str) -> None:
    """Add the workers from the logs of the actors that started them."""
    logs = iglob(f"{escape(str(session.folder))}/logs/worker-*.err")
    for number, path in enumerate(logs):
        pid = path.rpartition("-")[2].removesuffix(".err")
        if number >= _MOST_LOGS or not pid.isdecimal() or not os.path.exists(f"/proc/{pid}"):
            continue
        last = [*_STARTED.finditer(text := _end_of(path))][-1:]
        found = _WORKER.findall(text[last[0].end() :]) if last else []
        session.groups.update({int(pid): {int(rank): fit(ip) for ip, _, rank, _, _ in found}} if found else {})
        for ip, worker, rank, local, node in found:
            if ip != address:
                continue
            local_rank = sum(one[0] == address for one in found)
            values = (rank, local, node, str(len(found)), str(local_rank))
            session.workers[int(worker)] = RayWorker(int(pid), dict(zip(_VARIABLES, values, strict=True)))


def _end_of(path: str) -> str:
    """Return the end of a log, empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            return file.read(_TAIL).decode(errors="replace")
    except OSError:
        return ""


def job_of_driver(pid: int, session: Session) -> str:
    """Return the number of Ray's job whose driver this process is; empty if it is none of this session.

    A driver keeps its log open: ``python-core-driver-01000000ffff..._4711.log``.
    """
    for number in proc.list_names(pid, "fd"):
        folder, _, name = (proc.read_link(pid, f"fd/{number}") or "").rpartition("/")
        if folder == f"{session.inside}/logs" and name.startswith("python-core-driver-"):
            return name.removeprefix("python-core-driver-")[:8]
    return ""


def is_train_command(command: Collection[str]) -> bool:
    """Return whether its title is one of Ray Train's actors."""
    title = next(iter(command), "")
    return title.startswith(TITLE) and any(part in title for part in TRAINS)


def session_view(session: Session, driver: int | None, workers: Mapping[int, str]) -> RayView:
    """Return the facts about the cluster in the session's files."""
    text = _end_of(f"{session.folder}/logs/monitor.log")
    found = RayView(fit(session.name), driver, workers=dict(workers), address=session.address)
    return found if _STATUS not in text else _with_status(found, text)


def _with_status(found: RayView, text: str) -> RayView:
    status = text.rpartition(_STATUS)[2].partition("\n20")[0]  # up to the next line of the log
    nodes, _, rest = status.partition("Pending:")
    starting, _, rest = rest.partition("Recent failures:")
    return replace(
        found,
        status=True,
        demands=tuple(one for match in _DEMAND.finditer(rest) if (one := _demand(*match.groups())) is not None),
        resources={name: (float(used), float(total)) for used, total, name in _USAGE.findall(rest)},
        nodes=sum(int(number) for number in re.findall(r"^ (\d{1,6}) \S+$", nodes, re.MULTILINE)),
        starting=tuple(fit(line.strip()) for line in starting.splitlines() if line.strip() and "(no " not in line)[:8],
        impossible=_IMPOSSIBLE in text[-_LATELY:],
    )


def _demand(text: str, kind: str) -> RayDemand | None:
    bundles: list[RayBundle] = []
    for words, count in _BUNDLE.findall(text):
        try:
            amounts = ast.literal_eval(words)
            bundles.append(RayBundle({fit(str(name)): float(one) for name, one in amounts.items()}, int(count or 1)))
        except (ValueError, SyntaxError, AttributeError, TypeError, MemoryError, RecursionError):
            return None
    strategy = re.search(r"\((\w+)\)$", text) if kind.startswith("placement") else None
    return RayDemand(tuple(bundles), strategy[1] if strategy else "") if bundles else None
