"""The table: what trainers do, with mistakes and without, and what a rank waits for by itself.

What is to be said of each was written down before it was first looked at.
"""

from __future__ import annotations

from tests.lab.hang.acts import late
from tests.lab.hang.reported_further import held, one_host, slow
from tests.lab.hang.row import Job, Look, Row
from tests.lab.hang.table_words import MISMATCH, USER_CODE


def once(
    what: str,
    step: str,
    *looks: Look,
    ranks: int = 3,
    gone: tuple[int, ...] = (),
    seconds: float = 5.0,
    busy: bool = False,
) -> Job:
    """Ranks on one host, looked at once."""
    row = Row(f"trainer: {what}", step, looks, before=late(seconds), gone=gone, busy=busy, last=True)
    return Job(f"trainer: {what}", ("init", row), hosts=1, nproc=ranks)


TRAINERS = (
    one_host("an expert for which rank 1 has no data", "moe@1", 1),
    one_host("rank 0 alone clips its gradients", "clip@0", 0),
    one_host("rank 1 does not save with the others", "async-save@1", 1),
    one_host("rank 1 does not reduce its last gradients", "no-sync@1", 1),
    one_host("rank 0 alone collects the optimizer's state", "zero@0", 0),
    one_host("a pipeline whose last stage expects more", "microbatch@2", 1, 2),
    one_host("rank 0 sends what nobody takes", "send-more@0", 0, 1),
    one_host("rank 0 scatters what the others expect whole", "scatter@0", 0),
    once("rank 1 fails before a further group", "fail-group@1", Look(0, "process/gone", (1,), ("host0",)), gone=(1,)),
    once(
        "rank 1 in the group of the other dimension",
        "dimension@1",
        Look(0, MISMATCH, (0, 1), ("host0",)),  # they wait for each other, and nothing tells which of them is right
        ranks=4,
    ),
    once("rank 0 makes another mesh", "mesh@0", Look(0, MISMATCH, (0,), ("host0",)), ranks=4),
    once("rank 2 makes another mesh", "mesh@2", Look(0, MISMATCH, (2,), ("host0",)), ranks=4),
    once("rank 1 does not come to remote calls", "rpc-missing@1", Look(0, USER_CODE, (1,), ("host0",))),
    once("a database that is locked", "sqlite@1", Look(0, waits_for=(1,)), ranks=2),
    once("a regular expression without an end", "regex@1", Look(0, waits_for=(1,)), ranks=2, seconds=65.0, busy=True),
    held("a name server that says nothing", "dns@1", 1),
    held("a lock whose holder was killed", "lock-holder@1", 1),
    held("a manager that was stopped", "manager@1", 1),
    held("who failed sleeps to be looked at", "debug-sleep@1", 1),
    held("a helper that says nothing", "unix@1", 1),
    held("a spawned worker of a data loader", "spawn-loader@1", 1),
    held("a worker that was killed, and the loop goes on", "worker-lost@1", 1),
    slow("a thread of rank 0 writes a checkpoint", "writes-meanwhile@0:k", 0, 6.0),
    slow("rank 0 compiles C++ for its model", "inductor@0:k", 0, 15.0),
    slow("rank 0 packs a checkpoint", "packs@0:k", 0, 5.0),
    slow("rank 1 sends a checkpoint slowly", "uploads@1:k", 1, 6.0),
    slow("rank 1 fetches data slowly itself", "downloads@1:k", 1, 6.0),
    slow("rank 0 sorts", "sorts@0:k", 0, 5.0),
    slow("workers of rank 1 are spawned", "spawned-workers@1:k", 1, 8.0),
    slow("rank 0 looks through many folders", "walks@0:k", 0, 5.0),
    slow("the data of rank 1 comes slowly, without workers", "slow-samples@1:k", 1, 6.0),
    slow("the first stage of a pipeline computes long", "stages@0:k", 0, 5.0),
)  # fmt: skip
"""All of them."""
