"""The hosts of a run from one place, as people name them: ``gpu[01-16],extra7``, or a hostfile."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from distdoctor.model.errors import UsageError

MOST = 10_000
"""More hosts are a mistyped number."""
MOST_BYTES = 4 << 20
"""The largest hostfile that is read."""


@dataclass(frozen=True)
class NamedHost:
    """One host as it was named."""

    name: str
    """For ssh: it may have ``user@`` before it, and may be known to ~/.ssh/config alone."""
    slots: int | None = None
    """Ranks that its hostfile gives it."""


def named(text: str) -> tuple[NamedHost, ...]:
    """The hosts of ``--hosts``, in the order in which they are named: the first is node 0. Raises UsageError."""
    return _distinct(
        "--hosts", (NamedHost(name) for part in _parts(text) for name in _expanded("--hosts", part) if name)
    )


def in_file(path: Path) -> tuple[NamedHost, ...]:
    """The hosts of a hostfile: a line each, ``HOST``, ``HOST slots=8`` (Open MPI, DeepSpeed) or ``HOST:8`` (MPICH).

    ``#`` begins a comment; what else Open MPI knows (``max_slots=``) is left out. Raises UsageError.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(MOST_BYTES)
    except OSError as err:
        raise UsageError(f"--hostfile {path}: {err.strerror}") from None
    found: list[NamedHost] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        name, _, count = words[0].partition(":") if not words[0].startswith("[") else (words[0], "", "")
        for word in words[1:]:
            key, equals, value = word.partition("=")
            if key in ("slots", "cpu") and equals:
                count = value
        if count and not re.fullmatch(r"[1-9]\d{0,4}", count):
            raise UsageError(f"--hostfile {path}, line {number}: {count!r} is no number of slots")
        found += (NamedHost(one, int(count) if count else None) for one in _expanded(f"--hostfile {path}", name))
    return _distinct(f"--hostfile {path}", found)


def _parts(text: str) -> list[str]:
    """What stands between the commas that are in no brackets."""
    return [part.strip() for part in re.split(r",(?![^\[\]]*\])", text)]


def _expanded(flag: str, part: str) -> list[str]:
    """One part, its ranges unfolded; ``@group`` is ClusterShell's. Raises UsageError."""
    if not part:
        return []
    if not re.search(r"[\[\]@]", part.partition("@")[2] if "@" in part[1:] else part):
        return [_checked(flag, part)]
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    user, at, hosts = part.rpartition("@") if "@" in part[1:] else ("", "", part)
    try:
        nodes = NodeSet(hosts)
        if len(nodes) > MOST:
            raise UsageError(f"{flag} {part}: {len(nodes)} hosts are more than {MOST}")
        return [_checked(flag, f"{user}{at}{name}") for name in nodes]
    except (NodeSetException, OSError) as err:
        raise UsageError(f"{flag} {part}: {' '.join(str(err).split())}") from None


def _checked(flag: str, name: str) -> str:
    """``name``, where it can be one. ssh would take what begins with a dash for an option."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@:%\-]{0,254}", name):
        raise UsageError(f"{flag}: {name!r} is no name of a host")
    if port := re.fullmatch(r"([^:]+):(\d+)", name):
        raise UsageError(
            f"{flag}: {name} has a port in it; ssh's port of a host goes into ~/.ssh/config: `Host {port[1]}` and "
            f"below it `Port {port[2]}`"
        )
    return name


def _distinct(flag: str, hosts: Iterable[NamedHost]) -> tuple[NamedHost, ...]:
    found: dict[str, NamedHost] = {}
    for host in hosts:
        if host.name in found:
            raise UsageError(
                f"{flag} names {host.name} twice; several nodes of one host cannot be checked from one place"
            )
        found[host.name] = host
    if not found:
        raise UsageError(f"{flag} names no host")
    if len(found) > MOST:
        raise UsageError(f"{flag}: {len(found)} hosts are more than {MOST}")
    return tuple(found.values())
