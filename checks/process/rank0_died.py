"""The process that hosts the store has ended.

## What you see
`store->get('0')` with `Connection reset by peer` or `Broken pipe`, `recvValue failed`, `failed to recv, got 0 bytes`,
`sendBytes failed` on all ranks but one.

## Why it happens
Rank 0, or the agent of node 0, hosts the store. When it dies, every other rank loses the store.

## Fix
Fix the last error in the log of rank 0, or of node 0's torchrun (`tail -50 LOG`), then start again.

## Confirm with
`journalctl -k --since -1h | grep -iE "oom|segfault"` on node 0, and `tail -50` of rank 0's log.

## When it is harmless
At the very end of a job.

## See also
process/peer-died, process/exception
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, live

SEVERITY = "fail"
PREVENTS = "results right"
SYMPTOM_OF = "results right"
NEXT = ("the log of rank 0, and of the torchrun on node 0", "distdoctor diagnose LOGS...")
LOG = (
    Line(
        ("store->get(", "recvValue failed", "failed to recv, got 0 bytes", "sendBytes failed", "recvVector failed"),
        shows="symptom",
        why="rank 0 died for an unknown reason, or a proxy in front of it closes connections at once",
    ),
    Line(  # _keep_alive() of torch's dynamic rendezvous, which begins when the agent has joined
        "has failed to send a keep-alive heartbeat to the rendezvous",
        shows="symptom",
        why="a network that was cut after this agent had joined shows the same",
    ),
    Line(  # torch prints the frames of a failed call to the store below a warning
        "c10d::TCPStore::",
        r"^frame #\d{1,4}: c10d::TCPStore::(?:add|check|doGet|doWait|get|set|wait)\(",
        shows="symptom",
        why="it is a call to the store; the line above the frames shows how it failed",
        alone=True,
    ),
    Line(  # of ~ProcessGroupNCCL(), in torch 2.4 to 2.6 and since then: the interpreter exits
        ("destroy_process_group() was not called before", "process group has NOT been destroyed before"),
        r"(?P<leaves>destroy_process_group\(\) was not|process group has NOT)",
        shows="noise",
        why="the rank exits by itself",
    ),
    Line('dump" flag on TCPStore', shows="hint", why="the store's host ended, normally or before"),
    Line("TCPStore server has shut down too early", shows="hint", why="the store's host ended, normally or before"),
    Line(
        ("is setting up NCCL communicator", "top_waiting response is expected"),
        shows="symptom",
        why="rank 0, which hosts the store, died or never got that far",
    ),
    Line(
        "Failed to connect to client mesh master",  # torch_xla before 2.1
        shows="symptom",
        why="the first process, which serves the mesh, died or never got that far",
    ),
)


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None or 0 in job.numbers:
        return
    closed = live.sockets_to_store(job, "CLOSE_WAIT")
    ended = [f"{who}: the store closed its connection" for who, _ in closed]
    contact = live.store_contact(job)
    joined = (live.places.COLLECTIVE, live.places.GROUP, live.places.PEERS, live.places.STORE)
    if contact is not None and contact.outcome == "refused" and any(rank.place.kind in joined for rank in job.waiting):
        ended.append("the store's port refuses connections now")
    if not ended:
        return
    view = job.stores[-1] if job.stores else None
    agent = bool(view and view.hosted_by == "agent")
    master = live.master_of(job)
    who = f"The agent on {master}" if agent else f"Rank 0 on {master}"
    yield Finding.about(
        (master,),
        f"{who}, which hosted the store, has ended; the others wait.",
        ranks=() if agent else (0,),
        evidence=(*ended[:8], *live.waiting_evidence(job, [])),
        fixes=(
            Fix(
                "Fix the last error in its log, then restart the job. Confirm with: `journalctl -k --since -1h` on "
                f"{master}.",
                (master,),
            ),
        ),
    )
