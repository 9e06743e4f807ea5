"""No node takes the address of the c10d rendezvous for its own.

What you see
------------
Nothing for a minute on any node, then

    The client socket has timed out after 60000ms while trying to connect to (10.99.0.10, 29400)
    RendezvousConnectionError: The connection to the C10d store has failed

on all of them, also on the one that has the address, although nothing blocks the port.

Why it happens
--------------
torchrun's c10d rendezvous has no node rank by which a node would know that it is to host the store. Each agent compares
the endpoint with its host's own name and with the addresses which that name has there. An address of a second card (of
InfiniBand, of a storage network) is not among them, and on Debian and Ubuntu often none but 127.0.1.1 is. Then every
agent is a client, and nobody hosts.

Fix
---
Give `--rdzv-conf is_host=true` on the node that has the address, or name in the endpoint what its host name means.

When it is harmless
-------------------
With the static rendezvous, where node 0 hosts the store. With an etcd rendezvous.

See also
--------
network/master-not-node0, host/hostname-loopback, host/rendezvous-name
"""

from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
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
    why = "is told not to" if owners[0].plan.is_host is False else "does not know it for its own"
    yield Finding.about(
        owners,
        f"Nobody hosts torchrun's rendezvous at {place}: {names_of(owners)} has the address, and its torchrun {why}.",
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
    told = [node for node in owners if node.plan.is_host is False]
    if told:
        text = f"Take is_host out of {told[0].plan.sources.get('is_host', '--rdzv-conf')} on every node."
        yield Fix.on(cluster.nodes, text, unknown=("--rdzv-conf",))
        return
    text = f"Tell torchrun on {names_of(owners[:1])} to host it (beside what --rdzv-conf has already)."
    yield Fix.on(owners[0], text, flags={"--rdzv-conf": "is_host=true"})
    address = reachable_address(owners[0], cluster)
    known = {parse_address(one) for one in owners[0].host.own_name.addresses}
    for other in (address, *owners[0].addresses):
        if other is not None and parse_address(other) in known and not is_loopback(other):
            text = f"Or name the address that {owners[0].name}'s name has, where all nodes reach it."
            yield from set_master_fixes(cluster.nodes, text, address=other, option=2)
            return
