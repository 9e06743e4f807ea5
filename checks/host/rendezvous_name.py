"""torchrun cannot reach its own store by its host name.

## What you see
The ranks never start. For minutes, also with one node, silence, or again and again

    The IPv6 network addresses of (host0, 42909) cannot be retrieved (gai error: -3 - Temporary failure in name
    resolution)

## Why it happens
With the c10d rendezvous torchrun hosts the store of its ranks under this host's own name (getfqdn()) and connects to it
by that name. `--standalone` means c10d, too. So does every launch of one node without `--master-port` since torch 2.13.
If the name has no address, or another host's, torchrun waits for itself. Many containers and cloud images have no entry
for their name.

On several nodes all ranks look for that store by the first node's name (in the order of the names). The other nodes may
not resolve it, although the endpoint is an address. Or `--local-addr`, or the name, leads to a network card that they
cannot reach.

Each agent also looks up its own host name to compare it with the endpoint. If the name has no address, the agent ends
at once: `socket.gaierror: [Errno -2] Name or service not known`.

## Fix
On one node, set the port, which puts the store at 127.0.0.1: `torchrun --master-port 29500 ...`; or add the name to
/etc/hosts: `echo "10.77.0.10 host0" >> /etc/hosts`.

Or advertise an address in place of the name: `torchrun --local-addr 10.77.0.10 ...`.

## Confirm with
`python -c "import socket; print(socket.gethostbyname(socket.getfqdn()))"` prints the node's real address.

## When it is harmless
Another launcher than torchrun starts the ranks (mp.spawn, mpirun, a scheduler), or torchrun uses a static rendezvous.

## See also
host/hostname-unresolvable, host/hostname-loopback, network/master-unresolvable
"""

from distdoctor.check_api import (
    DEFAULT_PORT,
    Cluster,
    Contact,
    Finding,
    Fix,
    Iterator,
    Node,
    Resolution,
    RouteObstacle,
    announcing_node,
    contact_text,
    hosts_file_commands,
    is_loopback,
    lookup_failed,
    names_of,
    reachable_address,
    route_obstacle,
    set_launch_fix,
    settings,
)

SEVERITY = "fail"
PREVENTS = "store used"
FOLLOWS = ("host/duplicate-hostname",)
FOLLOWS_ANYWHERE = ("environment/torch-missing",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    nameless = [node for node in cluster.nodes if node.saw("host") and ends_for_want_of_name(node)]
    if nameless:
        yield finding(cluster, nameless)
    node = announcing_node(cluster)
    announced = node.host.announced if node else None
    if node is None or node in nameless or announced is None:
        return
    if leads_here(announced, node.host.announced_reached):
        if misled := [peer for peer in cluster.peers(node) if resolves_wrongly(peer, node)]:
            yield not_found(cluster, node, announced, misled)
        elif cut_off := [
            peer for peer in cluster.peers(node) if obstacles_between(peer, node) or failed_contact(peer, node)
        ]:
            yield not_reached(cluster, node, announced, cut_off)
        return
    yield Finding.about(
        [node],
        f"torchrun on {node.name} looks for its store at {announced.name}, "
        f"which {'has no address' if not announced.addresses else 'resolves to another host'} there.",
        evidence=evidence(node, announced),
        fixes=fixes(cluster, node, announced),
    )


def resolves_wrongly(peer: Node, node: Node) -> bool:
    """Return whether the announced name has no address on the peer, or only one that means the peer itself there, or
    none that is the node's and leads to it."""
    lookup = peer.network.rendezvous_name
    if lookup is None or peer.host_key == node.host_key:
        return False
    contact = failed_contact(peer, node)
    if contact is not None and not {*lookup.addresses} & {*node.addresses}:
        return True
    return all(is_loopback(address) or address in peer.addresses for address in lookup.addresses)


def obstacles_between(peer: Node, node: Node) -> list[RouteObstacle]:
    """Return the obstacles by which no packet gets from the peer to any address of the announced name; empty if it is
    uncertain."""
    lookup = peer.network.rendezvous_name
    if lookup is None or not lookup.addresses or not {*lookup.addresses} <= {*node.addresses}:
        return []
    obstacles = [route_obstacle(peer, node, address) for address in lookup.addresses]
    sure = [
        block for block in obstacles if block is not None and block.node is peer and block.kind in ("none", "reject")
    ]
    return sure if len(sure) == len(obstacles) else []


def failed_contact(peer: Node, node: Node) -> Contact | None:
    """Return the peer's failed contact with the node at an address of the announced name, if it reaches the node
    otherwise."""
    contact = peer.network.rendezvous_contact
    if contact is None or contact.outcome == "open" or peer.host_key == node.host_key or not peer.saw("mesh"):
        return None
    lost = any(link.to == node.facts.key and "primary" in link.use for link in peer.mesh.bad)
    return None if lost else contact


def not_reached(cluster: Cluster, node: Node, announced: Resolution, cut_off: list[Node]) -> Finding:
    known = {peer: reachable_address(peer, cluster) for peer in cluster.nodes}
    text = "Let torchrun advertise an address of each node that the others reach."
    routeless = {peer: obstacles_between(peer, node) for peer in cut_off}
    tried = {peer: contact for peer in cut_off if not routeless[peer] and (contact := failed_contact(peer, node))}
    lost = {block.address for blocks in routeless.values() for block in blocks} | {
        seen.address for seen in tried.values()
    }
    better = all(known.values()) and known[node] not in lost
    return Finding.about(
        [node],
        f"torchrun's ranks look for their store at {announced.name} of {node.name}, "
        + (
            f"which {names_of(cut_off)} cannot reach."
            if tried
            else f"to which {names_of(cut_off)} {'has' if len(cut_off) == 1 else 'have'} no route."
        ),
        links=tuple((peer.name, node.name) for peer in cut_off),
        evidence=(
            *(
                f"{peer.name}: its routing table "
                + (f"rejects {block.route.network}" if block.kind == "reject" else f"has no route to {block.address}")
                for peer, blocks in routeless.items()
                for block in blocks
            ),
            *(
                f"{peer.name}: {announced.name} {'is' if announced.name == attempt.address else 'resolves to'} "
                f"{attempt.address} there; a listener of {node.name}: {contact_text(attempt)}"
                for peer, attempt in tried.items()
            ),
        ),
        fixes=(set_launch_fix(peer, text, "local_addr", at) for peer, at in known.items() if better),
    )


def not_found(cluster: Cluster, node: Node, announced: Resolution, misled: list[Node]) -> Finding:
    address = reachable_address(node, cluster)
    known = {peer: reachable_address(peer, cluster) for peer in cluster.nodes}
    text = "Let torchrun advertise each node's address."
    by_address = [set_launch_fix(peer, text, "local_addr", at) for peer, at in known.items() if at]
    lines = [
        Fix.on(
            peer,
            f"Or give {announced.name} its address in /etc/hosts.",
            2,
            commands=hosts_file_commands(peer, address, announced.name),
        )
        for peer in misled
        if address and peer.network.rendezvous_name and not peer.network.rendezvous_name.addresses
    ]
    # /etc/hosts calls the host localhost: it is that name, and not what the others make of it.
    everywhere = announced.name.partition(".")[0] == "localhost" or is_loopback(announced.name)
    source = node.plan.sources.get("local_addr", "--local-addr") if node.plan.local_addr else "the own name"
    return Finding.about(
        [node] if everywhere else misled,
        f"torchrun's ranks look for their store at {announced.name} ({source} of {node.name}), which does not lead to "
        f"it on {names_of(misled)}.",
        evidence=(found_text(peer, announced.name) for peer in misled),
        fixes=(*(by_address if len(by_address) == len(known) else ()), *lines),
    )


def found_text(peer: Node, name: str) -> str:
    lookup = peer.network.rendezvous_name
    if lookup is None or not lookup.addresses:
        return f"{peer.name}: {lookup_failed(lookup) if lookup else name}"
    at, contact = f"{peer.name}: {name} is {', '.join(lookup.addresses)}", peer.network.rendezvous_contact
    if contact is None or contact.outcome == "open":
        return f"{at}, which is {peer.name} itself"
    return f"{at}; a listener there: {contact_text(contact)}"


def ends_for_want_of_name(node: Node) -> bool:
    own = node.host.own_name
    return (node.plan.nnodes or 1) > 1 and settings.needs_own_name(node) and not own.addresses and not own.timed_out


def finding(cluster: Cluster, nameless: list[Node]) -> Finding:
    return Finding.about(
        nameless,
        f"torchrun on {names_of(nameless)} ends at once: the host's own name has no address there.",
        evidence=(
            line
            for node in nameless
            for line in (
                f"{node.name}: {lookup_failed(node.host.own_name)}",
                f"{node.name}: the c10d rendezvous compares the endpoint {node.plan.master_addr} with it",
            )
        ),
        fixes=(named(cluster, node) for node in nameless),
    )


def named(cluster: Cluster, node: Node) -> Fix:
    address = reachable_address(node, cluster) or "127.0.1.1"
    commands = hosts_file_commands(node, address, node.identity.hostname)
    return Fix.on(node, f"Give {node.identity.hostname} its address in /etc/hosts.", commands=commands)


def leads_here(announced: Resolution, reached: bool | None) -> bool:
    """Return whether a store on this host is reached by the announced name; an address of its own needs no try."""
    return bool(announced.addresses) and reached is not False


def evidence(node: Node, announced: Resolution) -> Iterator[str]:
    if announced.timed_out or not announced.addresses:
        yield f"{node.name}: {lookup_failed(announced)}"
    else:
        addresses = ", ".join(announced.addresses)
        yield f"{node.name}: {announced.name} is {addresses}, which is not an address of {node.name}"
    alone = "one node without --master-port" if node.plan.rdzv_backend == "static" else "the c10d rendezvous"
    yield f"{node.name}: torch {node.identity.torch or '?'} starts {alone} under the host's own name"


def fixes(cluster: Cluster, node: Node, announced: Resolution) -> Iterator[Fix]:
    plan, option = node.plan, 1
    source = plan.sources.get("master_addr")
    standalone = source in ("--standalone", "PET_STANDALONE")
    if plan.nnodes == 1 and (standalone or plan.rdzv_backend == "static"):
        flags: dict[str, str | None] = {"--standalone": None} if source == "--standalone" else {}
        env: dict[str, str | None] = {"PET_STANDALONE": None} if source == "PET_STANDALONE" else {}
        text = "Set a port: torchrun's store is then at 127.0.0.1, and needs no name."
        yield Fix.on(node, text, env=env, flags={**flags, "--master-port": str(DEFAULT_PORT)})
        option = 2
    own = reachable_address(node, cluster)
    if plan.local_addr and own:
        yield set_launch_fix(node, f"Let torchrun advertise {node.name}'s own address.", "local_addr", own, option)
        return
    start = "Or give" if option > 1 else "Give"
    address = reachable_address(node, cluster) or "127.0.1.1"
    if announced.addresses:
        text = f"{start} {announced.name} the address {address} in /etc/hosts, in place of its present one."
        yield Fix.on(node, text, option)
    else:
        commands = hosts_file_commands(node, address, announced.name)
        yield Fix.on(node, f"{start} {announced.name} its address in /etc/hosts.", option, commands=commands)
