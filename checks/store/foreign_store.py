"""Another job's store answers on MASTER_ADDR:MASTER_PORT.

## What you see
Node 0 raises `EADDRINUSE`. The other nodes join the other job's store, report that init is done, and hang. The other
job may fail with them.

## Why it happens
An earlier run still holds the port, or two jobs share node 0 and the default port 29500.

## Fix
Use another port, the same on every node: `export MASTER_PORT=29501` (torchrun: `--master-port 29501`).

## Confirm with
`ss -ltnp 'sport = :29500'` on node 0 (names the process that holds the port).

## When it is harmless
When the other job ends before this one starts.

## See also
network/port-in-use, network/foreign-service
"""

from distdoctor.check_api import Cluster, Finding, Iterator, Node, taken_port_finding

SEVERITY = "fail"
PREVENTS = "store hosted"
FOLLOWS_ANYWHERE = ("environment/duplicate-rank", "environment/duplicate-node-rank", "environment/master-mismatch")


def judge(cluster: Cluster) -> Iterator[Finding]:
    affected = [node for node in cluster.nodes if foreign(node) and not of_node0(cluster, node)]
    if affected:
        yield taken_port_finding(cluster, affected, "Another job's store answers", map(evidence, affected))


def foreign(node: Node) -> bool:
    """Return whether the node found a store without this run's mark."""
    network, meeting = node.network, node.meeting
    if node.plan.agent_store or meeting.joined:
        return False
    if network.bind and not network.bind.ok and network.bind.answer and network.bind.answer.kind == "tcpstore":
        return True
    answer = network.answer
    # One without any key may be that of this run's node 0, which cannot write into it: store/nodes-missing.
    return bool(answer and answer.kind == "tcpstore" and meeting.ours is False and not answer.empty)


def of_node0(cluster: Cluster, node: Node) -> bool:
    """Return whether node 0 hosts the store that ``node`` found, even if node 0 could not leave its mark there."""
    zero, contact = cluster.node0, node.network.contact
    if zero is None or zero.host_key == node.host_key or contact is None:
        return False
    hosts = bool(zero.network.bind and zero.network.bind.ok) and zero.plan.master_port == contact.port
    return hosts and contact.address in zero.addresses


def evidence(node: Node) -> str:
    network = node.network
    answers = (network.bind.answer if network.bind else None, network.answer)
    generation = next((a.generation for a in answers if a and a.generation), None)
    kind = f"a TCPStore of torch {generation}" if generation else "a TCPStore"
    where = f"{node.name}: {node.plan.master_addr}:{node.plan.master_port}"
    return f"{where} is {kind}, without this run's mark; distdoctor changed nothing in it"
