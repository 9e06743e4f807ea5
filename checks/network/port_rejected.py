"""A firewall rejects packets to MASTER_PORT.

## What you see
`No route to host` (errno 113) or `Network is unreachable` at once, although the host answers a ping. torch repeats the
line every few seconds, with a garbage address and port in it.

## Why it happens
A packet filter answers with an ICMP error (`reject with icmp ...`), as firewalld does by default.

## Fix
Allow all TCP ports between the nodes, `firewall-cmd --zone=trusted --add-source=10.77.0.0/24`: gloo and NCCL use random
ports besides MASTER_PORT.

## Confirm with
`nc -zv -w 3 host0 29500`, from another node while node 0 runs, prints succeeded.

## When it is harmless
Never for a job of several nodes.

## See also
network/port-filtered, network/master-unreachable, mesh/peer-ports-blocked
"""

from distdoctor.check_api import Cluster, FailedContact, Finding, Iterator, Line, master_port_findings

SEVERITY = "fail"
LOG = (
    Line("errno: 113", r"errno: 113\b", shows="symptom", why="a host that is down shows the same"),
    Line("No route to host", shows="symptom", why="a host that is down shows the same"),
)
PREVENTS = "store reached"
SYMPTOM_OF = "plan agreed"
LOOKS_AT = ("meeting",)
FOLLOWS = ("network/connection-limit",)
FOLLOWS_ANYWHERE = ("network/master-not-node0",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    yield from master_port_findings(cluster, ("rejected",), "a firewall rejects the packets", answered, "reject")


def answered(shut: FailedContact) -> bool:
    """Return True: only a firewall answers with an ICMP error, with or without a store."""
    return True
