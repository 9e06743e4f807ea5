"""Lines that are written of failures of the stage store."""

from __future__ import annotations

CAUSES: tuple[tuple[str, str], ...] = (
    (
        "store/libuv-missing",
        "torch.distributed.DistStoreError: use_libuv was requested but PyTorch was build without libuv support",
    ),
    ("store/node-lost", "[ 1203.512345] Kernel panic - not syncing: Fatal exception in interrupt"),
)

SYMPTOMS: tuple[tuple[str, str], ...] = (
    (
        "store/nodes-missing",
        "Original error: DEADLINE_EXCEEDED: Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0. This "
        "usually happens because a task triggered the barrier too early or too slowly.",
    ),
    (
        "store/nodes-missing",
        "XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client_Connect. Timed out task names:",
    ),
    ("store/nodes-missing", "RuntimeError: Wait timeout"),
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
    ("store/nodes-missing", "LookupError: Timeout while waiting for keys in EtcdStore"),
    ("store/nodes-missing", "TimeoutError: timed out waiting for all 4 members to join"),
    ("store/node-lost", "[  395.350871] BUG: unable to handle kernel NULL pointer dereference at 00000000000000b1"),
    ("store/node-lost", "[ 1234.567890] mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 5: be00000000800400"),
    ("store/node-lost", "[ 1234.567890] reboot: Restarting system"),
    (
        "store/nodes-missing",
        "Warning  FailedScheduling  3m  default-scheduler  0/5 nodes are available: 5 Insufficient nvidia.com/gpu.",
    ),
    (
        "store/nodes-missing",
        "CapacityError: Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error",
    ),
    ("store/node-lost", "Warning  NodeNotReady  1m  node-controller  Node is not ready"),
    ("store/node-lost", "x4406c6s7b0n0: shepherd died from signal 9"),
    ("store/nodes-missing", "0/2 nodes are available: 1 Insufficient memory, 1 node(s) didn't match node selector."),
    (
        "store/nodes-missing",
        "INFO 06-07 18:13:55 [ray_utils.py:464] Waiting for creating a placement group of specs for 150 seconds. "
        "specs=[{'GPU': 1.0}, {'GPU': 1.0}].",
    ),
    (
        "store/nodes-missing",
        "(autoscaler +25s) Error: No available node types can fulfill resource request {'CPU': 1.0, 'GPU': 8.0}.",
    ),
)
HINTS: tuple[tuple[str, str], ...] = (
    (
        "store/nodes-missing",
        "[rank7]:[W410 21:36:52.177160212 socket.cpp:485] [c10d] waitForInput: socket SocketImpl(fd=5, "
        "addr=[host1]:39284, remote=[host0]:47115) timed out after 300000ms",
    ),
)
