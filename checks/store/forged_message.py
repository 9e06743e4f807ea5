"""Another program writes into the store of this run.

## What you see
Usually nothing: whoever can reach MASTER_PORT can write into a TCPStore, and PyTorch trusts every entry. The job then
fails with addresses that no node has, or computes with foreign values.

## Why it happens
Another program, or a person, reaches MASTER_PORT. Or a distdoctor of another version, or one without this run's token,
takes part.

## Fix
Allow MASTER_PORT from the nodes of the job only:
`nft insert rule inet filter input tcp dport 29500 ip saddr != 10.0.0.0/24 drop`.

Set the same DISTDOCTOR_TOKEN on every node, and distdoctor trusts only these nodes. The job has no such protection.

## Confirm with
`ss -tnp 'sport = :29500'` on node 0 (lists who is connected).

## When it is harmless
When a scanner probes the network: the job is as exposed to it as this check was. If collective/wrong-result is found,
the network damages data, and no process of the run wrote the damaged message.

## See also
store/token-mismatch, store/foreign-store
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, node0_name

SEVERITY = "fail"
PREVENTS = "store hosted"
SHOWN = 12
TOO_EARLY = "was there before"


def judge(cluster: Cluster) -> Iterator[Finding]:
    readers = [node for node in cluster.nodes if next(evidence(node), None)]
    if not readers:
        return
    zero = node0_name(cluster, readers[0])
    keyed = any(node.meeting.token == "agreed" for node in cluster.nodes)
    lines = tuple(line for node in readers for line in evidence(node))
    yield Finding.about(
        (zero,),
        f"A program outside this run wrote into the store of {zero}.",
        evidence=lines[:SHOWN] + ((f"and {len(lines) - SHOWN} more",) if len(lines) > SHOWN else ()),
        fixes=fixes(cluster, zero, readers[0].plan.master_port, keyed),
    )


def evidence(node: Node) -> Iterator[str]:
    # If the network damages the data of a collective, it damages what is read from the store as well. Only an entry
    # that was there too early proves a foreign writer then.
    damaged = any(stage.detail.get("wrong") for rank in node.facts.ranks for stage in rank.stages)
    for text in node.meeting.forged:
        if not damaged or TOO_EARLY in text:
            yield f"{node.name}: {text[:400]}"


def fixes(cluster: Cluster, zero: str, port: int, keyed: bool) -> Iterator[Fix]:
    look = f"Allow TCP {port} of {zero} from the job's nodes only; this command lists who is connected now."
    if not keyed:
        every = tuple(node.name for node in cluster.nodes)
        text = (
            "Run the check again with the same random DISTDOCTOR_TOKEN on every node; it then trusts only these nodes."
        )
        yield Fix(text, every)
    yield Fix(look, (zero,), option=1 if keyed else 2, commands=(f"ss -tnp 'sport = :{port}'",))
