"""A node came and then went away.

What you see
------------
The others hang until the timeout, or report `Connection reset by peer`, `Broken pipe`, `recvValue failed`: these are
consequences, the cause is on the node that went.

Why it happens
--------------
Its process was ended (out of memory, a scheduler's limit, a closed terminal, Ctrl-C), the host went down, or the
network was cut.

Fix
---
Look at that node first: its own output, `dmesg`, the scheduler's log.

When it is harmless
-------------------
When somebody stopped it on purpose.

See also
--------
store/nodes-missing, barrier/rank-missing
"""

from distdoctor.blame import node0_name, together
from distdoctor.causes import LIMITS
from distdoctor.check_api import Cluster, Finding, Fix, Iterator

SEVERITY = "fail"
FOLLOWS_ANYWHERE = ("store/forged-message", *LIMITS)


def judge(cluster: Cluster) -> Iterator[Finding]:
    lost: dict[str, str] = {}
    for node in cluster.nodes:
        meeting = node.facts.meeting
        if meeting is None:
            continue
        for key in meeting.lost:
            name = cluster.by_key[key].name if key in cluster.by_key else key.partition(" ")[0]
            lost.setdefault(name, f"{name} came, and was not heard of again ({key}), as {node.name} saw it")
        if meeting.host_lost:
            name = node0_name(cluster, node)
            lost.setdefault(name, f"{node.name}: the store of {name} went away before the report")
    if not lost:
        return
    names = tuple(lost)
    yield Finding(
        summary=f"{together(names)} went away in the middle of the check.",
        nodes=names,
        ranks=tuple(rank for node in cluster.nodes if node.name in lost for rank in node.ranks),
        evidence=tuple(lost.values()),
        fixes=(Fix(f"Look at what ended it on {together(names)}: its output, dmesg, the scheduler's log.", names),),
    )
