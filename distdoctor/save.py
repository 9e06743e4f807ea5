"""Saving facts, for ``diagnose``."""

from __future__ import annotations

import hashlib
import json
import os
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
    path = path.resolve()
    if path.exists() and not path.is_file():  # a pipe, /dev/stdout: written to, not replaced
        path.write_text(text + "\n")
        return
    # A reader sees the whole file or none.
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text + "\n")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _host(facts: NodeFacts) -> str:
    """A few characters that differ between hosts, and stay the same on one until it is booted again."""
    return hashlib.blake2s(" ".join(facts.identity.host).encode(), digest_size=3).hexdigest()
