"""A firewall drops packets to MASTER_PORT.

## What you see
Nothing for 15 to 30 minutes. With torchrun's c10d rendezvous after a minute

    The client socket has timed out after 60000ms while trying to connect to (host0, 29500)

and, if torch waits longer than the kernel (two minutes),

    The server socket on [::ffff:192.168.0.1]:29500 has timed out, will retry.

## Why it happens
A packet filter of node 0, of the node itself, or of the cloud between them (security groups) accepts ssh and drops the
rest. Or packets have no route or a wrong one: a netmask, a route or a policy routing rule (a VPN client's). Or an IPsec
policy has no security association, or the time to live ends at the first router.

## Fix
Allow all TCP ports between the nodes, `nft insert rule inet filter input ip saddr 10.77.0.0/24 accept`, also in the
security group: gloo and NCCL use random ports besides MASTER_PORT.

## Confirm with
`nc -zv -w 3 host0 29500`, from another node while node 0 runs, prints succeeded.

## When it is harmless
Never for a job of several nodes.

## See also
network/port-rejected, network/port-refused, mesh/peer-ports-blocked
"""

from collections.abc import Iterator

from distdoctor.check_api import NODE_0_AND_CHECK, Cluster, FailedContact, Finding, Line, live, master_port_findings

SEVERITY = "fail"
NEXT = NODE_0_AND_CHECK
LOG = (
    Line("client socket has timed out", shows="symptom", why="a store that no node hosts shows the same"),
    Line(
        "RuntimeError: Connection timed out",  # up to torch 1.4: what the kernel says after two minutes
        stack=r"/torch/distributed/rendezvous\.py",
        unframed=True,
        shows="symptom",
        why="a host that is down, or an address that no host has, shows the same",
    ),
    Line(
        "The server socket on ",  # what torch says of the kernel's errno 110 in place of "has failed to connect"
        r"server socket on \S{1,300} has timed out, will retry",
        shows="symptom",
        why="a host that is down, or an address that no host has, does not answer either",
    ),
    Line(
        ("errno: 110", "rror: 10060", "rror 10060"),  # of Windows: WSAETIMEDOUT
        r"errno: 110\b|(?:system error: |WinError )10060\b",
        shows="symptom",
        why="a host that is down does not answer either",
    ),
)
PREVENTS = "store reached"
SYMPTOM_OF = "plan agreed"
LOOKS_AT = ("meeting",)
FOLLOWS = ("network/arp-off", "network/duplicate-address", "network/overlapping-subnets", "network/connection-limit")
FOLLOWS_ANYWHERE = ("network/master-not-node0",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    yield from master_port_findings(cluster, ("no-answer",), "no answer", host_is_up, "drop")


def host_is_up(shut: FailedContact) -> bool:
    """Return whether the host answers on another port, or when it is asked for its hardware address: then it is up.

    Silence after an answer proves nothing of a filter: perhaps another host is reached now, or none.
    """
    if shut.node.network.let_through:
        return False
    if shut.control is not None and shut.control.answered:
        return True
    near = shut.node.network.neighbour
    return near is not None and near.state == "answers" and near.address == shut.contact.address


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None or not (live.dialling_store(job) or not job.ranks):
        return
    contact = live.store_contact(job)
    silent = contact is not None and contact.outcome == "no-answer"
    unanswered = any(socket.retransmits for _, socket in live.sockets_to_store(job, "SYN_SENT"))
    if silent or (unanswered and (contact is None or contact.outcome not in ("unreachable", "open"))):
        text = "Start that host if it is down (ping it); else open the port in its firewall, or in the one between."
        yield live.store_finding(job, "gives no answer", text)
