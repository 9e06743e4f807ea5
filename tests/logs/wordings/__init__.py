"""Lines as torch, NCCL, gloo, CUDA, launchers, schedulers and the kernel write them: of each failure, one or more.

A module for each stage has ``CAUSES``, which prove their check, and ``SYMPTOMS``, which only speak for it. ``HINTS``
(where a module has them) name their check only where something else in the log failed. ``HEALTHY`` lines look like a
failure and stand in the logs of jobs that run.
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
HEALTHY = (
    "# Out of bounds values : 0 OK",
    "[W socket.cpp:697] [c10d] The client socket has failed to connect to [kubernetes.docker.internal]:29500 "
    "(system error: 10049 - The requested address is not valid in its context.).",  # then it tries the next address
    "[1749803291.555759] [host0:7053 :0]     ucp_context.c:1904 UCX  WARN  UCP version is incompatible",
    "E1129 07:32:03.530449 25461 transfer_metadata_plugin.cpp:292] GET http://10.0.0.1:8187/metadata?key=mooncake%2F"
    "ram%2F10.0.0.1%3A13893 http=404 body: metadata not found",  # a segment that nobody has mounted yet
)
