"""Lines that are written of failures of the stage mesh."""

from __future__ import annotations

CAUSES: tuple[tuple[str, str], ...] = ()

SYMPTOMS: tuple[tuple[str, str], ...] = (
    (
        "mesh/peer-ports-blocked",
        "RuntimeError: Gloo connectFullMesh failed with [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/"
        "pair.h:311] Connect timeout [none]",
    ),
)
