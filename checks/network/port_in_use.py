"""Node 0 cannot host the store: MASTER_PORT is in use.

What you see
------------
On node 0 at once

    The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98,
    name: EADDRINUSE, message: address already in use

and on the other nodes nothing, for ever, if what holds the port never answers them.

Why it happens
--------------
An earlier run's process is still there, another job of yours or of another user has the default port 29500, or two
processes on this host both act as rank 0.

Fix
---
Use another port, the same one on every node.

When it is harmless
-------------------
When the holder ends before the job starts.

See also
--------
network/port-not-bindable, network/foreign-service, store/foreign-store, environment/duplicate-rank
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Node, holder_line, other_port_fixes, own_leftover

SEVERITY = "fail"
FOLLOWS_ANYWHERE = ("environment/duplicate-rank", "environment/duplicate-node-rank")
EADDRINUSE = 98


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if taken(node):
            yield finding(cluster, node)


def taken(node: Node) -> bool:
    """Whether the port is held, by something that is not told apart better (see foreign-service, foreign-store)."""
    network, meeting = node.facts.network, node.facts.meeting
    if network is None or network.bind is None or network.bind.ok or network.bind.errno != EADDRINUSE:
        return False
    answer = network.bind.answer
    if answer is not None and answer.kind in ("foreign", "closed", "tcpstore"):
        return False
    return not (meeting and meeting.joined)


def finding(cluster: Cluster, node: Node) -> Finding:
    assert node.facts.network and node.facts.network.bind
    bind = node.facts.network.bind
    seen = [holder_line(holder, bind.port) for holder in bind.holders]
    if not seen:
        seen = ["no process is shown as its holder: another network namespace or container, or one just ending"]
    if bind.answer is not None and bind.answer.kind == "silent":
        seen.append("connected to, it says nothing")
    return Finding(
        summary=f"Port {bind.port} is in use on {node.name}, so that node 0 cannot host the store.",
        nodes=(node.name,),
        ranks=node.ranks,
        evidence=tuple(f"{node.name}: {line}" for line in seen),
        fixes=(*other_port_fixes(cluster, bind.free_port), own_leftover(bind.holders, node, option=2)),
    )
