"""Names in a check file that are probably misspelled, and would be ignored in silence. Pure."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import filter as matching

from distdoctor.model.milestones import MILESTONES

SIMILAR = 0.8
"""difflib's ratio from which a name counts as another one misspelled."""


def problem_of_names(source: bytes, declarations: Sequence[str]) -> str:
    """What is wrong with a name that the file's top level gives and nothing in the file uses; empty: nothing is.

    A name that the file uses is a constant or a helper of its own, whatever it looks like.
    """
    tree = ast.parse(source)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    for name, line in _given(tree):
        if name in used or name in declarations:
            continue
        right = {one.upper(): one for one in declarations}
        close = difflib.get_close_matches(name.upper(), right, 1, SIMILAR)
        if close:
            return f"line {line}: {name} is no declaration, and nothing in the file uses it: write {right[close[0]]}"
    return ""


def problem_of_references(named: Mapping[str, Sequence[str]], ids: Collection[str]) -> str:
    """Which pattern of ids that a declaration holds means no check and no milestone; empty: each means one.

    ``named``: the patterns by the name of their declaration.
    """
    for declaration, patterns in named.items():
        for pattern in patterns:
            if pattern not in MILESTONES and not matching(ids, pattern):
                close = difflib.get_close_matches(pattern, [*ids, *MILESTONES], 1)
                return (
                    f"{declaration} names {pattern!r}, no check or milestone{f': write {close[0]!r}' if close else ''}"
                )
    return ""


def _given(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, node.lineno
