"""Files of saved facts, written by ``--save`` and read by ``diagnose``."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
import zlib
from collections.abc import Iterable
from pathlib import Path

from distdoctor import __version__
from distdoctor.model.bounds import check_facts
from distdoctor.model.facts import SCHEMA_VERSION, BadFacts, FactsFile, NodeFacts, decode, encode


def write(path: Path, facts: NodeFacts, leads_node: bool) -> None:
    """Write one process's facts to ``path``; into a folder, under a name of its own. Raises OSError.

    Started once per rank, every rank saves its facts; to a plain file name, the others append their rank.
    """
    rank = f"-rank{facts.plan.rank}" if facts.plan.started == "rank" else ""
    if path.is_dir():
        node = facts.node_rank if facts.node_rank is not None else facts.plan.node_rank
        # Hosts of the same name that never joined must not overwrite each other's file.
        place = rank or (f"-node{node}" if node is not None else f"-{_host(facts)}")
        if _no_place(facts):
            place += f"-pid{facts.identity.pid}"
        path = path / f"{facts.identity.hostname}{place}.json"
    elif rank and not leads_node:
        path = path.with_name(f"{path.stem}{rank}{path.suffix}")
    text = json.dumps(json.loads(encode(FactsFile((facts,), __version__))), indent=1)
    why_not = unfit(path, facts)
    if why_not is not None:
        raise OSError(f"{path} {why_not}")
    if path.exists() and not path.is_file():  # a pipe: written to, not replaced
        with open(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NOCTTY), "w") as pipe:
            pipe.write(text + "\n")
        return
    # A reader sees the whole file or none; the mode of the file keeps other readers of the folder out.
    temporary = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
            file.write(text + "\n")
        temporary.replace(path)
    except OSError as err:
        raise OSError(err.errno, err.strerror, str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)


def _no_place(facts: NodeFacts) -> bool:
    """Return whether this process joined without being assigned ranks: it may be one of two that were started here."""
    meeting = facts.meeting
    came = meeting is not None and meeting.joined and not meeting.hosted
    return facts.plan.started == "node" and facts.node_rank is None and came


def unfit(path: Path, facts: NodeFacts | None = None) -> str | None:
    """Return the reason not to write ``facts`` to ``path``; None if they may be written: to a new or empty file, facts
    of the same node, or a pipe.

    Without ``facts``, facts of any node are accepted. Somebody else may have put a link there, and root's files are not
    replaced for a mistyped name.
    """
    try:
        kind = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(kind.st_mode):
        return "is a symbolic link, which is not followed"
    if stat.S_ISREG(kind.st_mode):
        return None if kind.st_size == 0 else _not_replaced(path, facts)
    return None if stat.S_ISFIFO(kind.st_mode) or stat.S_ISCHR(kind.st_mode) else "is no file"


def _not_replaced(path: Path, facts: NodeFacts | None) -> str | None:

    there: tuple[NodeFacts, ...] = ()
    try:
        there = read([path])
    except BadFile:
        pass
    if not there:
        return "is a file that is not facts, and is left as it is"
    if facts is None or any(_node_of(other) == _node_of(facts) for other in there):
        return None
    return f"has the facts of {there[0].identity.hostname}: name a folder (PATH/), in which each node has its own file"


def _node_of(facts: NodeFacts) -> tuple[object, ...]:
    return facts.identity.hostname, facts.identity.netns


def _host(facts: NodeFacts) -> str:
    """Return a few characters that differ between hosts, and stay the same on one until it is rebooted."""
    return hashlib.blake2s(" ".join(facts.identity.host).encode(), digest_size=3).hexdigest()


MAX_BYTES = 256 << 20
"""Limit of a facts file, also of the content of a compressed one."""
GZIP = b"\x1f\x8b"
"""First bytes of a file that gzip(1) compressed (RFC 1952, 2.3.1)."""


class BadFile(Exception):
    """File that is no readable facts file; the text is the one line for the user and names the file."""


def read(paths: Iterable[Path]) -> tuple[NodeFacts, ...]:
    """Return the facts in these files, and in every ``*.json`` and ``*.json.gz`` of the folders among them, each
    process once; compressed by gzip(1) or not.

    Raises BadFile.
    """
    newest: dict[str, NodeFacts] = {}
    for path in _files(paths):
        for facts in _read_file(path):
            known = newest.get(facts.key)
            if known is None or facts.started_at > known.started_at:
                newest[facts.key] = facts
    if not newest:
        raise BadFile("there are no facts in the given files")
    return tuple(newest.values())


def _files(paths: Iterable[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted((*path.glob("*.json"), *path.glob("*.json.gz")))
            if not inside:
                raise BadFile(f"{path}: no *.json file in this folder")
            files += inside
        else:
            files.append(path)
    return files


def _content(path: Path) -> bytes:
    """Return the bytes of a regular file. Raises BadFile for anything else: reading that could wait for ever."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), "rb") as file:
            kind = os.fstat(file.fileno())
            if not stat.S_ISREG(kind.st_mode):
                raise BadFile(f"{path}: not a regular file, so not a facts file")
            if kind.st_size == 0:  # as all of /proc is, and reading /proc/kmsg removes the kernel's messages
                raise BadFile(f"{path}: empty, so not a facts file")
            if kind.st_size > MAX_BYTES:
                raise BadFile(f"{path}: larger than {MAX_BYTES >> 20} MiB, so not a facts file")
            data = file.read(MAX_BYTES)
            return _unpacked(path, data) if data.startswith(GZIP) else data
    except (OSError, ValueError) as err:
        raise BadFile(f"{path}: {getattr(err, 'strerror', None) or err}") from None


def _unpacked(path: Path, data: bytes) -> bytes:
    """Return the content that gzip(1) compressed to ``data``, at most ``MAX_BYTES``. Raises BadFile."""
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        text = unpacker.decompress(data, MAX_BYTES)
    except zlib.error as err:
        raise BadFile(f"{path}: not a whole gzip file: {err}") from None
    if unpacker.unconsumed_tail:
        raise BadFile(f"{path}: larger than {MAX_BYTES >> 20} MiB when unpacked, so not a facts file")
    if not unpacker.eof or unpacker.unused_data:
        raise BadFile(f"{path}: not one whole gzip file")
    return text


def _read_file(path: Path) -> tuple[NodeFacts, ...]:
    data = _content(path)
    try:
        content = decode(data, FactsFile)
        for facts in content.facts:
            check_facts(facts)
    except BadFacts as err:
        raise BadFile(f"{path}: not a facts file of distdoctor check --save: {err}") from None
    if content.schema_version > SCHEMA_VERSION:
        raise BadFile(f"{path}: written by a newer distdoctor ({content.distdoctor}); update this one to read it")
    return content.facts
