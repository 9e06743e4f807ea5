"""Lines as torch, NCCL, gloo, CUDA, launchers, schedulers and the kernel write them: of each failure, one or more.

A module for each stage has ``CAUSES``, which prove their check, and ``SYMPTOMS``, which only speak for it. ``HINTS``
(where a module has them) name their check only where something else in the log failed.
"""

from __future__ import annotations

from tests.logs.wordings import (
    barrier,
    collective,
    environment,
    gloo,
    gpu,
    host,
    kernel,
    launch,
    mesh,
    nccl,
    network,
    process,
    store,
)

STAGES = (environment, host, gpu, launch, network, store, mesh, gloo, nccl, barrier, collective, process, kernel)
CAUSES: tuple[tuple[str, str], ...] = tuple(row for stage in STAGES for row in stage.CAUSES)
SYMPTOMS: tuple[tuple[str, str], ...] = tuple(row for stage in STAGES for row in stage.SYMPTOMS)
HINTS: tuple[tuple[str, str], ...] = tuple(row for stage in STAGES for row in getattr(stage, "HINTS", ()))
