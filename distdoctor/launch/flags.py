"""The flags of the command line that make the plan, before they are read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Flags:
    """The launch flags as given on the command line; None: not given."""

    nnodes: str | None = None
    nproc_per_node: str | None = None
    node_rank: int | None = None
    master_addr: str | None = None
    master_port: int | None = None
    rdzv_endpoint: str | None = None
    rdzv_backend: str | None = None
    rdzv_id: str | None = None
    rdzv_conf: str | None = None
    local_addr: str | None = None
    standalone: bool = False
    local_rank: int | None = None
    init_method: str | None = None
    backend: str | None = None
