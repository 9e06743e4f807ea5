"""The table, once more: mistakes of which people reported that they hang a job, and programs that are only slow.

What is to be said of each was written down before it was first looked at.
"""

# ruff: noqa: E501 - a row is a line, however long

from __future__ import annotations

from tests.lab.hang.acts import late
from tests.lab.hang.reported_further import held, one_host, slow
from tests.lab.hang.row import Job, Look, Row
from tests.lab.hang.table_words import MISMATCH, USER_CODE

ONCE_MORE = (
    one_host("rank 0 alone reduces figures for its progress bar", "figures@0", 0),
    one_host("rank 1 leaves out a step", "nan@1", 1),
    one_host("rank 2 does not wrap its model", "unwrapped@2", 2),
    one_host("rank 1 lets go of something that all have to", "garbage@1", 1),
    one_host("what rank 1 has cannot be sent", "unpicklable@1", 1),
    one_host("rank 1 failed, and waits for all at its end", "fails@1", 1),
    one_host("rank 2 goes on where the others meet", "monitored@2", 2),
    Job(
        "reported: an event loop",
        ("init", Row("reported: an event loop", "loop@2", (Look(0, USER_CODE, (2,), ("host0",)),), last=True)),
        hosts=1,
        nproc=3,
    ),
    Job(
        "reported: a thread that is watched",
        ("init", Row("reported: a thread that is watched", "watched@2", (Look(0, USER_CODE, (2,), ("host0",)),), last=True)),
        hosts=1,
        nproc=3,
    ),
    one_host("two tags", "tag", 0, 1),
    one_host("a ring of which one is reversed", "ring@1", 0, 1, 2),
    one_host("groups in another order", "reordered@1", 1),
    one_host("rank 2 leaves out the call of its pair", "pair@2", 1, 2),
    Job(
        "reported: rank 3 stops early",
        ("init", Row("reported: rank 3 stops early", "early@3", (Look(0, ask=("host1",)), Look(1, MISMATCH, (3,), ("host1",))), together=Look(0, MISMATCH, (3,), ("host1",)), before=late(5.0), last=True)),
    ),
    held("a worker of a pool was killed", "pool-killed@1", 1),
    held("nobody reads its output", "output@1", 1),
    held("a thread that keeps its program", "thread@1", 1),
    held("a handler of signals that wants a lock", "handler@1", 1),
    held("two locks", "locks@0", 0),
    held("a question at a terminal", "asks@0", 0),
    held("a queue that is full", "queue-full@1", 1),
    held("code in C that keeps the interpreter", "interpreter@1", 1),
    held("a worker of its data loader was stopped", "worker-stopped@1", 1),
    Job(
        "reported: rank 1 tries again and again",
        ("init", Row("reported: rank 1 tries again and again", "retry@1", (Look(1), Look(0, ask=("host1",))), together=Look(0, waits_for=(1,)), before=late(65.0), last=True)),
        nproc=1,
    ),
    slow("processes of rank 0 prepare data", "pool-works@0:k", 0),
    slow("threads of rank 1 check data", "threads-work@1:k", 1, 6.0),
    slow("a thread of rank 1 fetches data slowly", "fetches@1:k", 1, 8.0),
    slow("a pool of rank 1 fetches data slowly", "pool-fetches@1:k", 1, 8.0),
    slow("a process of rank 1 fetches data slowly", "process-fetches@1:k", 1, 8.0),
    slow("an event loop of rank 1 pauses", "loop-pauses@1:k", 1, 6.0),
    slow("rank 0 copies small files", "copies@0:k", 0),
    slow("a program of rank 0 computes", "program-works@0:k", 0, 6.0),
    slow("a service of rank 1 takes its time", "service@1:k", 1, 6.0),
    slow("rank 0 waits for a service that comes", "backs-off@0:k", 0, 6.0),
    slow("rank 1 sleeps ten seconds in each step", "long-pauses@1:k", 1, 8.0),
    Job(
        "reported: a helper of rank 0 was stopped",
        ("init", Row("reported: a helper of rank 0 was stopped", "helper-stopped@0:k", (Look(0), Look(1)), moves=True)),
        nproc=1,
    ),
)  # fmt: skip
"""All of them."""
