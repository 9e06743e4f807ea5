"""Saving facts, for ``diagnose``."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from pathlib import Path

from distdoctor import __version__
from distdoctor.facts import FactsFile, NodeFacts, encode


def write(path: Path, facts: NodeFacts, leads_node: bool) -> None:
    """Write one process's facts to ``path``; into a folder, under a name of its own. Raises OSError.

    Started once per rank, every rank saves what it saw; to a plain file name, the others add their rank.
    """
    rank = f"-rank{facts.plan.rank}" if facts.plan.started == "rank" else ""
    if path.is_dir():
        node = facts.node_rank if facts.node_rank is not None else facts.plan.node_rank
        # Hosts of the same name that never met must not write over each other's file.
        place = rank or (f"-node{node}" if node is not None else f"-{_host(facts)}")
        path = path / f"{facts.identity.hostname}{place}.json"
    elif rank and not leads_node:
        path = path.with_name(f"{path.stem}{rank}{path.suffix}")
    text = json.dumps(json.loads(encode(FactsFile((facts,), __version__))), indent=1)
    why_not = unfit(path)
    if why_not is not None:
        raise OSError(f"{path} {why_not}")
    if path.exists() and not path.is_file():  # a pipe: written to, not replaced
        with open(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NOCTTY), "w") as pipe:
            pipe.write(text + "\n")
        return
    # A reader sees the whole file or none; who else may read the folder does not read what is in the file.
    temporary = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
            file.write(text + "\n")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def unfit(path: Path) -> str | None:
    """Why facts are not written to ``path``, None where they may be: to a new or empty file, facts, or a pipe.

    Somebody else may have put a link there, and root's files are not replaced for a mistyped name.
    """
    try:
        kind = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(kind.st_mode):
        return "is a symbolic link, which is not followed"
    if stat.S_ISREG(kind.st_mode):
        return None if kind.st_size == 0 or _has_facts(path) else "is a file that is not facts, and is left as it is"
    return None if stat.S_ISFIFO(kind.st_mode) or stat.S_ISCHR(kind.st_mode) else "is no file"


def _has_facts(path: Path) -> bool:
    from distdoctor.diagnose import BadFile, read

    try:
        return bool(read([path]))
    except BadFile:
        return False


def _host(facts: NodeFacts) -> str:
    """A few characters that differ between hosts, and stay the same on one until it is booted again."""
    return hashlib.blake2s(" ".join(facts.identity.host).encode(), digest_size=3).hexdigest()
