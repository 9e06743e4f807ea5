"""The words by which a check says what it needs to have seen (``LOOKS_AT``).

* A part of a node's facts by its path, as ``host.limits`` or ``network.master``: seen where nothing on it is None.
* ``meeting``: that the node joined the store, or that its waiting for that is over.
* ``ranks.STAGE``: that every rank of the node went through the stage; ``ranks.devices``: that it sees one;
  ``ranks.work``: that its work was measured.
* ``everyone``: the facts of the whole job, for what compares its nodes.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any, get_args, get_type_hints

from distdoctor.model.facts import NodeFacts
from distdoctor.model.stages import BY_NAME, ENVIRONMENT, GPU, HOST, MESH, NETWORK, STAGES, STORE

EVERYONE, MEETING, RANKS, DEVICES, WORK = "everyone", "meeting", "ranks", "devices", "work"
CLOCK = "mesh.clock_offset"
"""Measured against node 0, which has none."""
_SEEN_BY = {
    ENVIRONMENT: ("plan",),
    HOST: ("host",),
    GPU: (f"{RANKS}.{DEVICES}",),
    NETWORK: ("network",),
    STORE: (MEETING,),
    MESH: ("mesh",),
}


def seen_by(stage: str) -> tuple[str, ...]:
    """What a check of that stage needs to have seen where it does not say: of most, that every rank went through it."""
    return _SEEN_BY.get(BY_NAME[stage], (f"{RANKS}.{stage}",))


def is_part(part: object) -> bool:
    """Whether ``part`` is a word of ``LOOKS_AT``."""
    if not isinstance(part, str) or part == EVERYONE:
        return part == EVERYONE
    first, _, rest = part.partition(".")
    if first == RANKS:
        return rest in (*STAGES, DEVICES, WORK)
    kind: Any = NodeFacts
    for name in part.split("."):
        fields = _fields(kind)
        if name not in fields:
            return False
        kind = next((one for one in get_args(fields[name]) if is_dataclass(one)), fields[name])
    return True


@lru_cache
def _fields(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind) if is_dataclass(kind) else {}
