"""Two versions of distdoctor do not understand each other.

What you see
------------
Only this check has this trouble: the node finds node 0's store, and cannot take part in its run. The job itself
has none of it, and nothing is known about it yet.

Why it happens
--------------
The nodes have environments or images of different days, and between the versions of distdoctor in them what the nodes
say to each other has changed.

Fix
---
Install the same distdoctor on every node. Where it is not the same, torch often is not, either.

When it is harmless
-------------------
When the node belongs to another run: then it is at the wrong port.

See also
--------
environment/version-mismatch, store/token-mismatch, store/nodes-missing
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, joined_other_run, node0_name, some_of

SEVERITY = "fail"
PREVENTS = "store hosted"
INCOMPLETE = True
FOLLOWS_ANYWHERE = ("network/port-in-use",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    nodes = [node for node in cluster.nodes if node.meeting.speaks and not joined_other_run(node)]
    if not nodes:
        return
    zero, names = node0_name(cluster, nodes[0]), tuple(node.name for node in nodes)
    # Who is understood by a third is not the odd one out.
    alone = not any(node.meeting.joined and not node.meeting.hosted for node in cluster.nodes)
    yield Finding.about(
        (zero, *names) if alone else names,
        f"{some_of(names)} and {zero} have versions of distdoctor that do not understand each other.",
        ranks=(),
        unsure=alone,
        evidence=(seen(node) for node in nodes),
        fixes=fixes(zero, nodes, alone),
    )


def seen(node: Node) -> str:
    where = f"{node.plan.master_addr}:{node.plan.master_port}"
    mine, its = node.identity.distdoctor, node.meeting.speaks
    other = f"distdoctor {its}, and here is {mine}" if its != mine else f"another distdoctor {its} than this one"
    return f"{node.name}: the mark in the store at {where} is of {other}"


def fixes(zero: str, nodes: list[Node], alone: bool) -> Iterator[Fix]:
    names = tuple(node.name for node in nodes)
    yield Fix(f"Install the distdoctor of {zero} ({nodes[0].meeting.speaks}).", names)
    if alone:
        versions = some_of(dict.fromkeys(node.identity.distdoctor for node in nodes))
        yield Fix(f"Or install that of {some_of(names)} ({versions}).", (zero,), option=2)
