"""Lines that are written of failures of the stage store."""

from __future__ import annotations

CAUSES: tuple[tuple[str, str], ...] = (
    (
        "store/libuv-missing",
        "torch.distributed.DistStoreError: use_libuv was requested but PyTorch was build without libuv support",
    ),
)

SYMPTOMS: tuple[tuple[str, str], ...] = (
    (
        "store/nodes-missing",
        "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients joined.",
    ),
    (
        "store/exit-barrier",
        "ERROR:torch.distributed.elastic.agent.server.api:Error waiting on exit barrier. Elapsed: 300.1 seconds",
    ),
    (
        "store/nodes-missing",
        "torch.distributed.DistStoreError: Timed out waiting on barrier on rank 0, for key prefix: "
        "torchelastic/agent/terminal_state/ (world_size=4, missing_ranks=[2, 3], timeout=300)",
    ),
    ("store/nodes-missing", "RuntimeError: Wait timeout for key(s): [ 0/1 ]"),
)
