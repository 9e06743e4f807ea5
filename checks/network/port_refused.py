"""Nothing listens on MASTER_PORT, or a firewall resets connections to it.

## What you see
torch retries in silence, and never prints `refused`. After one to thirty minutes

    The client socket has timed out after 60000ms while trying to connect to (host0, 29500)

## Why it happens
Node 0 has not started yet, has failed, or uses another port. If node 0 hosts the store on that port, a firewall answers
in its place (`reject with tcp reset`).

## Fix
Start node 0 with the same MASTER_PORT, `torchrun --nnodes 2 --node-rank 0 --master-addr host0 --master-port 29500 ...`;
or open the port in the firewall.

## Confirm with
`nc -zv -w 3 host0 29500`, from another node while node 0 runs, prints succeeded.

## When it is harmless
While node 0 is not up yet: distdoctor retries until --wait ends.

## See also
store/nodes-missing, environment/master-mismatch, network/port-filtered
"""

from collections.abc import Iterator

from distdoctor.check_api import NODE_0_AND_CHECK, Cluster, FailedContact, Finding, Line, live, master_port_findings

SEVERITY = "fail"
NEXT = NODE_0_AND_CHECK
LOG = (
    Line("failed to connect to any network address", r"errno: 111\b|ECONNREFUSED|Connection refused", shows="end"),
    Line(
        "errno: 111",
        r"client socket has failed to connect to \[?[^\]\s]{1,64}\]?:(?P<port>\d{1,5})",
        shows="symptom",
        why="the host of the store may have died, or not have started yet",
    ),
    Line(
        ("TCP client failed to connect", "Connection refused"),
        "(?:TCPStore|c10d|TCP client|RuntimeError: Connection refused)",
        shows="symptom",
        why="the host of the store may have died, or not have started yet",
        unless=r"gloo/|connectFullMesh|remote=\[",
    ),
    Line(
        "failed to connect to any network address",
        shows="symptom",
        why="no process listens there, or packets do not arrive: the lines above show which",
    ),
    Line(
        "Failed to get list of machines from ",  # python-etcd's, which torchrun's etcd rendezvous asks
        r"Failed to get list of machines from https?://\S{1,260}: ",
        shows="symptom",
        why="an etcd that is down, one at another address, and one without its interface of version 2 show the same",
    ),
)
PREVENTS = "store reached"
SYMPTOM_OF = "store hosted"
LOOKS_AT = ("meeting",)
FOLLOWS = ("network/connection-limit",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    yield from master_port_findings(cluster, ("refused", "reset"), "connection refused", never, "reset")


def never(shut: FailedContact) -> bool:
    """Return False: a node 0 that has not started yet refuses connections, too."""
    return False


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    contact = live.store_contact(job) if job else None
    if job is None or contact is None or contact.outcome not in ("refused", "reset") or live.before_store(job):
        return
    if live.dialling_store(job) or not job.ranks:
        fix = "Start node 0 there with this port; if it has ended, its log shows why."
        yield live.store_finding(job, "refuses connections", fix, live.connect_wait(job))
