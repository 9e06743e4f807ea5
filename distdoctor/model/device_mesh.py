"""Groups of a device mesh, in the order in which every rank of a job creates them.

torch/distributed/device_mesh.py (2.2 to 2.13): for each dimension, in its order, one new_group() for each of its rows,
on all ranks; the last dimension counts fastest. A dimension of all ranks is the default group, and creates none. With
device_id= in init_process_group(), NCCL splits the default group once for each dimension instead. Engines and Megatron
create their groups themselves, one of all ranks included, in an order of their own: of a dimension (``tp``), or of
several together (``ep=dp+tp``).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

Mesh = tuple[tuple[str, int], ...]
"""Name and size of each dimension, the outermost first."""
MOST_DIMENSIONS = 8
MOST_GROUPS = 256
"""Limit of extra groups."""
MOST_SIZE = 1_000_000
MOST_ENTRIES = 16
"""Limit of the entries in an order of creation."""
_DIMENSION = re.compile(r"([A-Za-z_][\w-]{0,31})=([1-9]\d{0,6})")


@dataclass(frozen=True)
class Group:
    """Group of a mesh, or an extra one of all ranks."""

    name: str
    """Dimension of the mesh; for an extra group its number, as ``group 2``."""
    ranks: tuple[int, ...]


def parse_mesh(text: str) -> Mesh | None:
    """Return the mesh of ``dp=2,tp=4``; None if it is none."""
    matches = [_DIMENSION.fullmatch(part.strip()) for part in text.split(",")]
    mesh = tuple((match[1], int(match[2])) for match in matches if match)
    names = {name for name, _ in mesh}
    return mesh if len(names) == len(matches) <= MOST_DIMENSIONS and size(mesh) <= MOST_SIZE else None


def text_of(mesh: Mesh) -> str:
    """Return the mesh as it is written on a command line."""
    return ",".join(f"{name}={length}" for name, length in mesh)


def size(mesh: Mesh) -> int:
    """Return the number of ranks of the mesh."""
    return math.prod(length for _, length in mesh)


def dimensions_of(entry: str) -> tuple[str, list[str]]:
    """Return the name and the dimensions of the groups in an entry of an order: ``tp``, or ``ep=dp+tp``."""
    name, _, together = entry.partition("=")
    return name, (together or name).split("+")


def _partitions(mesh: Mesh, world: int, order: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Return name and dimensions of the groups that the job creates in one step, in the order of creation."""
    if not order:
        return [(name, [place]) for place, (name, length) in enumerate(mesh) if length != world]
    places = {name: place for place, (name, _) in enumerate(mesh)}
    return [(name, sorted(places[one] for one in ones)) for name, ones in map(dimensions_of, order)]


def groups_of(mesh: Mesh, extra: int, world: int, order: Sequence[str] = ()) -> list[Group]:
    """Return the groups in the order of their creation, by each of ``world`` ranks; ``extra`` ones of all ranks after
    those of the mesh. ``order``: the groups that the job creates itself; empty: it uses a DeviceMesh."""
    lengths = [length for _, length in mesh]
    groups = []
    for name, inside in _partitions(mesh, world, order):
        rows: dict[tuple[int, ...], list[int]] = {}
        for row in itertools.product(*map(range, lengths)):
            rest = tuple(at for place, at in enumerate(row) if place not in inside)
            rows.setdefault(rest, []).append(_rank(row, lengths))
        groups += [Group(name, tuple(ranks)) for ranks in rows.values()]
    return [*groups, *(Group(f"group {number + 1}", tuple(range(world))) for number in range(extra))]


def _rank(coordinates: Sequence[int], lengths: Sequence[int]) -> int:
    rank = 0
    for coordinate, length in zip(coordinates, lengths, strict=True):
        rank = rank * length + coordinate
    return rank


# Cost of the groups for each rank with gloo, measured with torch 2.13: a group of n ranks has n - 1 connections, a
# listener, an epoll instance and two ends of a pipe, and three threads.


THREADS_OF_GROUP = 3
FILES_OF_GROUP = 3
"""Files that are not connections."""


def lengths_of(mesh: Mesh, extra: int, world: int, order: Sequence[str] = ()) -> list[int]:
    """Return the sizes of the groups that one rank belongs to, without the default one."""
    inside = [places for _, places in _partitions(mesh, world, order)]
    return [*(size(tuple(mesh[place] for place in places)) for places in inside), *[world] * extra]
