"""Somebody else writes into the store of this run.

What you see
------------
Nothing, as a rule: whoever can reach MASTER_PORT can write into a TCPStore, and PyTorch believes what stands there. A
job whose store is written to by others fails with addresses that nobody has, or computes with somebody else's values.

Why it happens
--------------
Another program, or a person, reaches MASTER_PORT; or a distdoctor of another version, or one without this run's token,
takes part.

Fix
---
Let nobody but the job's nodes reach MASTER_PORT. With the same DISTDOCTOR_TOKEN on every node, nothing is believed but
what these nodes wrote; the job itself has no such protection.

When it is harmless
-------------------
Where somebody scans the network: the job is as open to it as this check was. A report that reads differently on a node
whose data is damaged on the way (collective/wrong-result) is damaged, too, and no message of anybody's.

See also
--------
store/token-mismatch, store/foreign-store
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, node0_name

SEVERITY = "fail"
PREVENTS = "store hosted"
SHOWN = 12
TOO_EARLY = "was there before"


def judge(cluster: Cluster) -> Iterator[Finding]:
    seen = [node for node in cluster.nodes if next(evidence(node), None)]
    if not seen:
        return
    zero = node0_name(cluster, seen[0])
    keyed = any(node.meeting.token == "agreed" for node in cluster.nodes)
    lines = tuple(line for node in seen for line in evidence(node))
    yield Finding.about(
        (zero,),
        f"What stands in the store of {zero} was not all written by the nodes of this run.",
        evidence=lines[:SHOWN] + ((f"and {len(lines) - SHOWN} more",) if len(lines) > SHOWN else ()),
        fixes=fixes(cluster, zero, seen[0].plan.master_port, keyed),
    )


def evidence(node: Node) -> Iterator[str]:
    # Where the data of a collective is damaged on the way, so is what is read from the store: another content shows
    # nothing then, and only what stands there too early does.
    damaged = any(stage.detail.get("wrong") for rank in node.facts.ranks for stage in rank.stages)
    for text in node.meeting.forged:
        if not damaged or TOO_EARLY in text:
            yield f"{node.name}: {text[:400]}"


def fixes(cluster: Cluster, zero: str, port: int, keyed: bool) -> Iterator[Fix]:
    look = f"See on {zero} who is connected to port {port}, and let nobody but the job's nodes reach it."
    if not keyed:
        every = tuple(node.name for node in cluster.nodes)
        text = "Run it again with the same random DISTDOCTOR_TOKEN on every node: then only these nodes are believed."
        yield Fix(text, every)
    yield Fix(look, (zero,), option=1 if keyed else 2, commands=(f"ss -tnp 'sport = :{port}'",))
