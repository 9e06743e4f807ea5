"""Two nodes run incompatible versions of distdoctor.

## What you see
Only this check is affected: the node finds node 0's store and cannot take part in its run. The job itself is not
affected, and its result is unknown.

## Why it happens
The nodes have environments or images of different dates, and the protocol of distdoctor changed between them.

## Fix
Install the same distdoctor on every node: `pip install distdoctor==0.1.0`. A different distdoctor often means a
different torch as well.

## Confirm with
`distdoctor --version` on every node.

## When it is harmless
When the node belongs to another run; it then uses the wrong port.

## See also
environment/version-mismatch, store/token-mismatch, store/nodes-missing
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, joined_other_run, node0_name, some_of

SEVERITY = "fail"
PREVENTS = "store hosted"
INCOMPLETE = True
FOLLOWS_ANYWHERE = ("network/port-in-use",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    nodes = [node for node in cluster.nodes if node.meeting.speaks and not joined_other_run(node)]
    if not nodes:
        return
    zero, names = node0_name(cluster, nodes[0]), tuple(node.name for node in nodes)
    # A node 0 that a third node understands is not to blame.
    alone = not any(node.meeting.joined and not node.meeting.hosted for node in cluster.nodes)
    yield Finding.about(
        (zero, *names) if alone else names,
        f"{some_of(names)} and {zero} run incompatible versions of distdoctor.",
        ranks=(),
        unsure=alone,
        evidence=(evidence(node) for node in nodes),
        fixes=fixes(zero, nodes, alone),
    )


def evidence(node: Node) -> str:
    where = f"{node.plan.master_addr}:{node.plan.master_port}"
    own, other = node.identity.distdoctor, node.meeting.speaks
    writer = f"distdoctor {other}, this node runs {own}" if other != own else f"a different build of distdoctor {other}"
    return f"{node.name}: the mark in the store at {where} is from {writer}"


def fixes(zero: str, nodes: list[Node], alone: bool) -> Iterator[Fix]:
    names = tuple(node.name for node in nodes)
    yield Fix(f"Install the version of {zero}: `pip install distdoctor=={nodes[0].meeting.speaks}`.", names)
    if alone:
        versions = some_of(dict.fromkeys(node.identity.distdoctor for node in nodes))
        yield Fix(f"Or install the version of {some_of(names)} on {zero} ({versions}).", (zero,), option=2)
