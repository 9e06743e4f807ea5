"""No route leads to the address of MASTER_ADDR.

## What you see
torch prints every few seconds `failed to connect to 2.86.0.0:47756 (errno: 113 - No route to host)`. The errno is
right; address and port are garbage.

## Why it happens
The host is down, no host of this network has the address, or a router has no further route. MASTER_ADDR may name an
interface of node 0 that the others do not share. Or its name has several addresses, and the first is unreachable:
clients try them in order, and dropped packets delay the next one by minutes.

## Fix
Set the master to an address of node 0 in a network that all nodes share, `export MASTER_ADDR=10.77.0.10`, or repair the
route: `ip route add 10.78.0.0/24 via 10.77.0.1`.

If a node's routing table or netmask is wrong (a wrong gateway, a reverse path filter), correct that.

## Confirm with
`ip route get 10.77.0.10; ping -c 1 10.77.0.10` shows the route and a reply.

## When it is harmless
While node 0 boots: distdoctor retries until --wait ends. No host then answers for its address either.

## See also
network/no-route, network/master-not-node0, network/port-rejected, store/nodes-missing
"""

from distdoctor.check_api import (
    Cluster,
    Contact,
    FailedContact,
    Finding,
    Fix,
    Iterator,
    Node,
    contact_text,
    contacted_another_host,
    errno_text,
    failed_contacts,
    grouped_by_address,
    lacks_route,
    links_to,
    live,
    master_is_up,
    misrouted_finding,
    names_of,
    node0_name,
    parse_address,
    reachable_address,
    route_obstacles,
    set_master_fixes,
    store_host_tried,
    tried_host,
)

SEVERITY = "fail"
MATTERS = "every connection to the master would first wait for the unreachable address"
PREVENTS = "store reached"
SYMPTOM_OF = "master resolved"
FOLLOWS = ("host/lo-down", "host/hostname-numeric", "host/ports-exhaustible")
FOLLOWS_ANYWHERE = ("network/master-not-node0", "network/rendezvous-unhosted", "process/*")
LOOKS_AT = ("meeting",)
DISCOVERY = "Neighbour discovery uses ICMPv6, which the packet filters of both ends must accept"
NOTICED = 1.0
"""Seconds from which an address that fails is a delay that people notice."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    shut = [attempt for attempt in failed_contacts(cluster, ("unreachable", "error")) if not lacks_route(attempt)]
    if delayed := [node for node in cluster.nodes if slow_contacts(node)]:
        yield tried_first(delayed)
    obstacles = route_obstacles(cluster, shut)
    if obstacles:
        yield misrouted_finding(cluster, [attempt for attempt in shut if attempt.node in obstacles], obstacles)
    shut = [attempt for attempt in shut if attempt.node not in obstacles]
    for group in grouped_by_address(shut):
        alone = [] if store_host_tried(cluster, group) else [attempt for attempt in group if attempt.silent_neighbour]
        yield from no_host_findings(cluster, alone)
        rest = [attempt for attempt in group if attempt not in alone]
        if rest:
            yield finding(cluster, rest)


def slow_contacts(node: Node) -> list[Contact]:
    """Return the IPv4 addresses of MASTER_ADDR that a store client tries in vain before the one that works.

    It tries them in order (torch/csrc/distributed/c10d/socket.cpp).
    """
    obstacles = node.network.contact
    works = obstacles is not None and obstacles.outcome == "open"
    slow = [c for c in node.network.passed_over if works and ":" not in c.address and c.seconds >= NOTICED]
    return [c for c in slow if c.outcome in ("no-answer", "unreachable", "error")]


def tried_first(nodes: list[Node]) -> Finding:
    """The finding about a name with several addresses, the first of which lead nowhere. Where packets are dropped each
    connection waits until its timeout, or until the kernel gives up after two minutes (tcp_syn_retries, tcp(7))."""
    vain = [(node, contact) for node in nodes for contact in slow_contacts(node)]
    first, working = vain[0][1], nodes[0].network.contact
    address = working.address if working is not None else None
    return Finding.about(
        nodes,
        f"{nodes[0].plan.master_addr} has several addresses on {names_of(nodes)}: the first, {first.address}, is "
        f"unreachable; {address} works.",
        title="The first address of MASTER_ADDR is unreachable",
        severity="fail" if any(contact.outcome == "no-answer" for _, contact in vain) else "warn",
        evidence=(f"{node.name}: {contact_text(contact)}" for node, contact in vain),
        fixes=set_master_fixes(nodes, f"Set the master to the address that works, {address}.", address=address),
    )


def no_host_findings(cluster: Cluster, shut: list[FailedContact]) -> Iterator[Finding]:
    """The findings about addresses that no host has, on networks that these nodes are in themselves."""
    for way in (True, False):
        several = [
            attempt for attempt in shut if (near := attempt.silent_neighbour) is not None and near.gateway is way
        ]
        if several:
            yield no_host_finding(cluster, several)


def no_host_finding(cluster: Cluster, shut: list[FailedContact]) -> Finding:
    name, clients, address = (
        node0_name(cluster, shut[0].node),
        [attempt.node for attempt in shut],
        shut[0].contact.address,
    )
    near = shut[0].silent_neighbour
    assert near is not None
    who = names_of(clients)
    evidence = (line for attempt in shut for line in neighbour_evidence(attempt))
    links = links_to(clients, name)
    if near.gateway:
        summary = f"No host has the address {near.address}, the gateway of {who} to {address} ({name})."
        text = f"Start the gateway {near.address}, or correct the route on {who}. Confirm with: ip route get {address}."
        return Finding.about(clients, summary, links=links, evidence=evidence, fixes=(Fix.on(clients, text),))
    text = f"Start {name}, or correct its address: {source(shut[0])}. Confirm with: ping -c 1 {address}."
    another = contacted_another_host(cluster, shut)
    return Finding.about(
        dict.fromkeys((*(client.name for client in clients), *(() if another else (name,)))),
        f"No host has the address {address}, where {who} {'looks' if len(clients) == 1 else 'look'} for {name}."
        if ":" not in address
        else f"No host answers {who} for the address {address}, which should be {name}.",
        links=links,
        unsure=not another,
        evidence=evidence,
        fixes=(Fix.on(clients, f"{text} {DISCOVERY}." if ":" in address else text),),
    )


def neighbour_evidence(attempt: FailedContact) -> Iterator[str]:
    near, who = attempt.silent_neighbour, attempt.node.name
    if near is not None:
        yield f"{who}: no host answers for {near.address} ({attempt.asked_neighbour}); {contact_text(attempt.contact)}"
    yield f"{who}: {source(attempt)}"


def source(attempt: FailedContact) -> str:
    """Return the origin of the address: a setting, a line of /etc/hosts or the name service."""
    network, plan = attempt.node.network, attempt.node.plan
    if parse_address(plan.master_addr) is not None:
        return f"{plan.master_addr} is the value of {plan.sources.get('master_addr', 'MASTER_ADDR')}"
    lines = [line for line in network.master_lines if line.text.split()[0] in attempt.node.master_addresses]
    if lines:
        return f"{plan.master_addr} is {attempt.contact.address} by line {lines[0].number} of /etc/hosts"
    parts = (plan.master_addr or "").split(".")
    if all(part.isdecimal() for part in parts):  # inet_aton(3); getaddrinfo(3) asks nobody for such a one
        octal = any(len(part) > 1 and part.startswith("0") for part in parts)
        why = "a part that begins with 0 is octal" if octal else "the last part of fewer than four is the rest"
        return f"{plan.master_addr} is {attempt.contact.address} as a number ({why})"
    return f"{plan.master_addr} is {attempt.contact.address} by the name service"


def finding(cluster: Cluster, shut: list[FailedContact]) -> Finding:
    zero = store_host_tried(cluster, shut)
    name = zero.name if zero else node0_name(cluster, shut[0].node)
    clients = [attempt.node for attempt in shut]
    contact = shut[0].contact
    of_zero = none_gets_there(cluster, zero, clients)
    another = contacted_another_host(cluster, shut)
    name = tried_host(cluster, shut) if another else name
    both = dict.fromkeys((*(client.name for client in clients), *(() if another else (name,))))
    return Finding.about(
        (name,) if of_zero else both,
        f"{names_of(clients)} cannot reach {contact.address} ({name}): {errno_text(contact.errno)}.",
        links=links_to(clients, name),
        unsure=not (of_zero or another),
        evidence=(line for attempt in shut for line in evidence(attempt)),
        fixes=fixes(cluster, shut, name),
        because_of=None if zero else "all met",
    )


def none_gets_there(cluster: Cluster, zero: Node | None, clients: list[Node]) -> bool:
    """Return whether these are all other hosts, and several: what they have in common is node 0 and its own link."""
    others = {node.host_key for node in cluster.nodes if zero is not None and node.host_key != zero.host_key}
    return len(others) > 1 and others == {client.host_key for client in clients}


def evidence(attempt: FailedContact) -> Iterator[str]:
    yield f"{attempt.node.name}: {contact_text(attempt.contact)}"
    route = attempt.node.network.route
    if route is not None and route.error:
        yield f"{attempt.node.name}: no route to {route.target}: {route.error}"
    elif route is not None:
        yield f"{attempt.node.name}: the route to {route.target} leaves by {route.interface} from {route.source}"


def fixes(cluster: Cluster, shut: list[FailedContact], name: str) -> tuple[Fix, ...]:
    zero = store_host_tried(cluster, shut)
    other = reachable_address(zero, cluster) if zero else None
    if zero is not None and other is not None and other != shut[0].contact.address:
        text = f"Set the master to an address of {name} that the others share."
        return set_master_fixes(cluster.nodes, text, address=other)
    clients, address = [attempt.node for attempt in shut], shut[0].contact.address
    if zero is not None and none_gets_there(cluster, zero, clients):
        asked = "Confirm with: ip -d link; sysctl net.ipv4.conf.all.arp_ignore (0 answers ARP)."
        if ":" in address:
            asked = f"Confirm with: ip -d link. {DISCOVERY}."
        text = (
            f"Repair the interface of {name} that has {address}, its link or its switch port: {name} is up, but no "
            f"other host reaches it. {asked}"
        )
        return (Fix.on(zero, text),)
    if master_is_up(cluster, shut):
        text = (
            f"Repair the route from {names_of(clients)} to {address}, or the network between the hosts: {name} is up. "
            f"Confirm with: ip route get {address}; ip neigh."
        )
        if ":" in address:
            text += f" {DISCOVERY}."
        return (Fix.on(clients, text),)
    return (Fix.on(clients, f"Bring {name} up, or repair the route to {address}."),)


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None or live.silent_links(job):
        return  # more than the master is out of reach: store/node-lost
    contact = live.store_contact(job)
    if contact is not None and contact.outcome == "unreachable" and (job.waiting or not job.ranks):
        yield live.store_finding(
            job,
            "is unreachable from here",
            "Repair the cable, the route or that host. Confirm with: ip route; ip neigh.",
        )
