"""The host of the store went away.

What you see
------------
`store->get('0')` with `Connection reset by peer` or `Broken pipe`, `recvValue failed`, `failed to recv, got 0 bytes`,
`sendBytes failed` on all ranks but one.

Why it happens
--------------
Rank 0, or the agent of node 0, hosts the store; when it dies, every other rank loses the store.

Fix
---
Read the log of rank 0 (or of node 0's torchrun): it has the reason.

When it is harmless
-------------------
At the very end of a job.

See also
--------
process/peer-died, process/exception
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = (
    "the log of rank 0, and of the torchrun on node 0",
    "distdoctor diagnose LOGS...",
)
LOG = (
    Line(
        ("store->get(", "recvValue failed", "failed to recv, got 0 bytes", "sendBytes failed", "recvVector failed"),
        shows="symptom",
        why="rank 0 may have died of anything; a proxy that accepts connections in its place closes them at once",
    ),
    Line(
        'dump" flag on TCPStore',
        shows="hint",
        why="the store is gone: its host left, at the end or before",
    ),
    Line(
        "TCPStore server has shut down too early",
        shows="hint",
        why="the store is gone: its host left, at the end or before",
    ),
    Line(
        ("is setting up NCCL communicator", "top_waiting response is expected"),
        shows="symptom",
        why="rank 0, which hosts the store, did not answer: it died, or never came so far",
    ),
)
