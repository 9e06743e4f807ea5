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

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, live

SEVERITY = "fail"
PREVENTS = "results right"
SYMPTOM_OF = "results right"
NEXT = ("the log of rank 0, and of the torchrun on node 0", "distdoctor diagnose LOGS...")
LOG = (
    Line(
        ("store->get(", "recvValue failed", "failed to recv, got 0 bytes", "sendBytes failed", "recvVector failed"),
        shows="symptom",
        why="rank 0 may have died of anything; a proxy that accepts connections in its place closes them at once",
    ),
    Line('dump" flag on TCPStore', shows="hint", why="the store is gone: its host left, at the end or before"),
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
    Line(
        "Failed to connect to client mesh master",  # torch_xla before 2.1
        shows="symptom",
        why="the first process, which all others ask for the mesh, did not answer: it died, or never came so far",
    ),
)


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None or 0 in job.numbers:
        return
    closed = live.sockets_to_store(job, "CLOSE_WAIT")
    ended = [f"{who} has its connection to the store closed by the other side" for who, _ in closed]
    contact = live.store_contact(job)
    came = (live.places.COLLECTIVE, live.places.GROUP, live.places.PEERS, live.places.STORE)
    if contact is not None and contact.outcome == "refused" and any(rank.place.kind in came for rank in job.waiting):
        ended.append("nobody listens at the store any more")
    if not ended:
        return
    view = job.stores[-1] if job.stores else None
    agent = bool(view and view.hosted_by == "agent")
    master = live.master_of(job)
    who = f"The agent on {master}" if agent else f"Rank 0 on {master}"
    yield Finding.about(
        (master,),
        f"{who}, which hosted the store, is gone; the others wait.",
        ranks=() if agent else (0,),
        evidence=(*ended[:8], *live.waiting_evidence(job, [])),
        fixes=(Fix(f"Look why it ended: its log, and the kernel's (dmesg) on {master}; then start again.", (master,)),),
    )
