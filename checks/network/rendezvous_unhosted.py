"""No node hosts the c10d rendezvous: none treats its address as its own.

## What you see
Nothing for a minute on any node, then

    The client socket has timed out after 60000ms while trying to connect to (10.99.0.10, 29400)
    RendezvousConnectionError: The connection to the C10d store has failed

on all of them, also on the node that has the address, although nothing blocks the port.

## Why it happens
torchrun's c10d rendezvous has no node rank to select the host. Each agent compares the endpoint with its host's own
name and that name's addresses. An address of a second card (InfiniBand, a storage network) is not among them, and on
Debian and Ubuntu often only 127.0.1.1 is. Then every agent is a client, and no node hosts.

## Fix
Select the host on the node that has the address, `torchrun --rdzv-conf is_host=true ...`, or use the address of its
host name as the endpoint.

## Confirm with
`getent ahosts $(hostname)` on that node lists the address of --rdzv-endpoint.

## When it is harmless
With the static rendezvous, where node 0 hosts the store, and with an etcd rendezvous.

## See also
network/master-not-node0, host/hostname-loopback, host/rendezvous-name
"""

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Iterator,
    Node,
    is_loopback,
    names_of,
    parse_address,
    reachable_address,
    set_master_fixes,
    settings,
)

SEVERITY = "fail"
PREVENTS = "store hosted"
LOOKS_AT = ("network.master", "host")
FOLLOWS = ("host/rendezvous-name", "environment/rendezvous-backend-mismatch")


def judge(cluster: Cluster) -> Iterator[Finding]:
    owners = [node for node in cluster.nodes if node.network.master_is_own]
    if not owners or any(settings.takes_itself_for_host(node) is not False for node in owners):
        return
    place = owners[0].plan.master_addr
    why = "has is_host=false" if owners[0].plan.is_host is False else "does not treat it as its own"
    yield Finding.about(
        owners,
        f"No node hosts torchrun's rendezvous at {place}: {names_of(owners)} has the address, but its torchrun {why}.",
        evidence=(line for node in owners for line in evidence(node)),
        fixes=fixes(cluster, owners),
    )


def evidence(node: Node) -> Iterator[str]:
    plan, own = node.plan, node.host.own_name
    if plan.is_host is False:
        yield f"{node.name}: is_host is false (from {plan.sources.get('is_host', '--rdzv-conf')})"
        return
    at = ", ".join(f"{address} ({node.interface_of(address)})" for address in node.master_addresses)
    yield f"{node.name}: the endpoint {plan.master_addr} is its own: {at}"
    yield f"{node.name}: its name {own.name} is {', '.join(own.addresses)} there, which is what torchrun compares"


def fixes(cluster: Cluster, owners: list[Node]) -> Iterator[Fix]:
    not_hosting = [node for node in owners if node.plan.is_host is False]
    if not_hosting:
        text = f"Remove is_host from {not_hosting[0].plan.sources.get('is_host', '--rdzv-conf')} on every node."
        yield Fix.on(cluster.nodes, text, unknown=("--rdzv-conf",))
        return
    text = f"Let torchrun on {names_of(owners[:1])} host it (in addition to its present --rdzv-conf)."
    yield Fix.on(owners[0], text, flags={"--rdzv-conf": "is_host=true"})
    address = reachable_address(owners[0], cluster)
    known = {parse_address(owned) for owned in owners[0].host.own_name.addresses}
    for other in (address, *owners[0].addresses):
        if other is not None and parse_address(other) in known and not is_loopback(other):
            text = f"Or use the address of {owners[0].name}'s host name, if all nodes reach it."
            yield from set_master_fixes(cluster.nodes, text, address=other, option=2)
            return
