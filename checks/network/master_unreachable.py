"""There is no way to the address of MASTER_ADDR.

What you see
------------
torch prints every few seconds `failed to connect to 2.86.0.0:47756 (errno: 113 - No route to host)`: the errno is
right, address and port are garbage.

Why it happens
--------------
The host is down, the address is nobody's on this network, or a router on the way knows no way on. MASTER_ADDR may
name an interface of node 0 that the others do not share.

Fix
---
Name an address of node 0 in a network that all nodes share, or repair the route. Where the nodes' own routing tables
and netmasks say what is wrong (a gateway that is none, a reverse path filter), that.

When it is harmless
-------------------
While node 0 boots: the doctor tries again until --wait ends.

See also
--------
network/no-route, network/master-not-node0, network/port-rejected, store/nodes-missing
"""

from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    FailedContact,
    Finding,
    Fix,
    contact_text,
    failed_contacts,
    grouped_by_address,
    lacks_route,
    links_to,
    live,
    master_known_up,
    misrouted_finding,
    names_of,
    node0_name,
    reachable_address,
    route_obstacles,
    set_master_fixes,
    store_host_tried,
)

SEVERITY = "fail"
PREVENTS = "store reached"
SYMPTOM_OF = "store hosted"
LOOKS_AT = ("meeting",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    shut = [one for one in failed_contacts(cluster, ("unreachable", "error")) if not lacks_route(one)]
    found = route_obstacles(cluster, shut)
    if found:
        yield misrouted_finding(cluster, [one for one in shut if one.node in found], found)
    shut = [one for one in shut if one.node not in found]
    for group in grouped_by_address(shut):
        yield finding(cluster, group)


def finding(cluster: Cluster, shut: list[FailedContact]) -> Finding:
    zero = store_host_tried(cluster, shut)
    name = zero.name if zero else node0_name(cluster, shut[0].node)
    clients = [one.node for one in shut]
    contact = shut[0].contact
    return Finding.about(
        dict.fromkeys((*(client.name for client in clients), name)),
        f"There is no way from {names_of(clients)} to {contact.address} ({name}): errno {contact.errno}.",
        links=links_to(clients, name),
        unsure=True,
        evidence=(line for one in shut for line in evidence(one)),
        fixes=fixes(cluster, shut, name),
        because_of=None if zero else "all met",
    )


def evidence(one: FailedContact) -> Iterator[str]:
    yield f"{one.node.name}: {contact_text(one.contact)}"
    route = one.node.network.route
    if route is not None and route.error:
        yield f"{one.node.name}: no route to {route.target}: {route.error}"
    elif route is not None:
        yield f"{one.node.name}: the route to {route.target} leaves by {route.interface} from {route.source}"


def fixes(cluster: Cluster, shut: list[FailedContact], name: str) -> tuple[Fix, ...]:
    zero = store_host_tried(cluster, shut)
    other = reachable_address(zero, cluster) if zero else None
    if zero is not None and other is not None and other != shut[0].contact.address:
        return set_master_fixes(cluster.nodes, f"Name {name} by an address that the others share.", address=other)
    clients, address = [one.node for one in shut], shut[0].contact.address
    if master_known_up(cluster, shut):
        text = (
            f"{name} is up: look at the way from {names_of(clients)} to {address} (ip route get {address}; ip neigh), "
            "and at what is between the hosts."
        )
        return (Fix.on(clients, text),)
    return (Fix.on(clients, f"Bring {name} up, or repair the route to {address}."),)


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None or live.silent_links(job):
        return  # more than the master is out of reach: store/node-lost
    contact = live.store_contact(job)
    if contact is not None and contact.outcome == "unreachable" and (job.waiting or not job.ranks):
        yield live.store_finding(
            job, "cannot be reached from here at all", "Look at the cable, the route and that host."
        )
