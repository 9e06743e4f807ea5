"""Something that is no store answers on MASTER_ADDR:MASTER_PORT.

What you see
------------
On node 0 `EADDRINUSE`; on the others silence, `recvValueWithTimeout failed` or `Connection reset by peer`, because they
talk to a web server, an ssh daemon or a scheduler.

Why it happens
--------------
MASTER_PORT was taken from another service, or that service happened to get the port on node 0.

Fix
---
Use another port, the same one on every node.

When it is harmless
-------------------
Never, if the service stays.

See also
--------
network/port-in-use, store/foreign-store
"""

from collections.abc import Iterator

from distdoctor.check_api import (
    Answer,
    Cluster,
    Finding,
    Node,
    claims_node0,
    end_leftover_fix,
    node0_name,
    other_master_port_fixes,
    port_holder_seen,
)

SEVERITY = "fail"
PREVENTS = "store hosted"
FOLLOWS_ANYWHERE = ("environment/duplicate-rank", "environment/duplicate-node-rank", "environment/master-mismatch")


def judge(cluster: Cluster) -> Iterator[Finding]:
    seen = [(node, answer) for node in cluster.nodes if (answer := foreign(node)) is not None]
    if seen:
        yield finding(cluster, seen)


def foreign(node: Node) -> Answer | None:
    network, meeting = node.network, node.meeting
    if meeting.joined:
        return None
    held = network.bind.answer if network.bind and not network.bind.ok else None
    if held is not None and held.kind in ("foreign", "closed"):
        return held
    # Connections that are only closed tell nothing from afar: a store without a descriptor left closes them, too.
    return network.answer if network.answer is not None and network.answer.kind == "foreign" else None


def finding(cluster: Cluster, seen: list[tuple[Node, Answer]]) -> Finding:
    first, answer = seen[0]
    owner = next((node for node, _ in seen if claims_node0(node)), None) or cluster.node0
    name = owner.name if owner else node0_name(cluster, first)
    bind = owner.network.bind if owner else None
    said = f": {sample(answer)}" if answer.sample else ""
    what = "closes connections at once" if answer.kind == "closed" else f"answers{said}"
    holders = bind.holders if bind else ()
    return Finding(
        summary=f"What {what} on port {first.plan.master_port} of {name} is no store.",
        nodes=(name,),
        evidence=(
            *(f"{n.name}: {n.plan.master_addr}:{n.plan.master_port} {told(a)}" for n, a in seen),
            *(f"{name}: {port_holder_seen(holder, first.plan.master_port)}" for holder in holders),
        ),
        fixes=(
            *other_master_port_fixes(cluster, bind.free_port if bind else None),
            *((end_leftover_fix(holders, owner, option=2),) if owner and holders else ()),
        ),
    )


def told(answer: Answer) -> str:
    return "closes the connection" if answer.kind == "closed" else f"answers {sample(answer)}"


def sample(answer: Answer) -> str:
    """The first line of what it said: where line ends stood, the sample has spaces."""
    return repr(answer.sample.partition("  ")[0])
