"""Fixes that unset a variable, where NCCL reads it from a file: nothing in the environment takes it away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from shlex import quote

from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.findings import Fix


def with_files(fix: Fix, cluster: Cluster) -> Iterator[Fix]:
    """The fix; for nodes on which a file sets what it unsets, one of its own, which removes the line from the file."""
    named = [node for node in cluster.nodes if node.name in fix.nodes]
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for node in named:
        if found := set_in_files(fix, node):
            alike.setdefault(found, []).append(node.name)
    if not alike:
        yield fix
        return
    others = {name for names in alike.values() for name in names}
    if rest := tuple(name for name in fix.nodes if name not in others):
        yield replace(fix, nodes=rest)
    for found, names in alike.items():
        env = {name: value for name, value in fix.env.items() if name not in dict(found)}
        commands = tuple(f"sed -i '/^{name}=/d' {quote(file)}" for name, file in found)
        text = f"{fix.text.rstrip('.')}: {', '.join(f'{name} is set in {file}' for name, file in found)}."
        yield replace(fix, text=text, nodes=tuple(names), env=env, commands=(*fix.commands, *commands))


def set_in_files(fix: Fix, node: Node) -> tuple[tuple[str, str], ...]:
    """The variables that it unsets and that a file sets there, and which file."""
    unset = (name for name, value in fix.env.items() if value is None)
    return tuple((name, file) for name in unset if (file := node.where_set(name)))
