"""What several checks need to say whom a failure is to be blamed on."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Literal

from distdoctor.causes import LIMITS
from distdoctor.cluster import Cluster, Node, is_loopback, parse
from distdoctor.facts import Contact, FirewallChain, PortHolder
from distdoctor.findings import Blame
from distdoctor.firewall import Hook, blocks, concerns
from distdoctor.interfaces import is_bridge, is_virtual
from distdoctor.master_address import endpoint

LAUNCH = tuple(
    f"environment/{name}"
    for name in (
        "missing-variable",
        "invalid-variable",
        "torch-missing",
        "torch-shadowed",
        "torch-broken",
        "duplicate-rank",
        "duplicate-node-rank",
        "world-size-mismatch",
        "too-many-nodes",
        "master-mismatch",
        "agent-store-hijack",
    )
)
"""The checks of the environment that keep nodes from meeting, or from agreeing once they met."""
MASTER = (
    "network/master-unresolvable",
    "network/master-resolves-differently",
    "network/master-not-node0",
    "network/port-in-use",
    "network/port-not-bindable",
    "network/foreign-service",
    "store/foreign-store",
    "store/silent",
    "store/token-mismatch",
    "store/forged-message",
    "store/libuv-missing",
    "host/port-privileged",
    "host/hostname-numeric",
)
"""The checks that say why there is no store of this job at MASTER_ADDR:MASTER_PORT."""
NAMES = ("network/master-unresolvable", "network/master-resolves-differently")
"""Those of them that are a matter of the node that asks: they keep no other node away."""
STORE = tuple(check for check in MASTER if check not in NAMES)
WAY = (
    "network/no-route",
    "network/port-filtered",
    "network/port-rejected",
    "network/port-refused",
    "network/master-unreachable",
)
"""The checks that say why a node does not get to a store that is there."""
PEERS = (
    "barrier/rank-stopped",
    "store/forged-message",
    "network/wrong-interface",
    "network/ipv6-mismatch",
    "network/no-route",
    "mesh/partition",
    "mesh/node-isolated",
    "mesh/one-way",
    "mesh/peer-ports-blocked",
    "mesh/mtu-blackhole",
    "gloo/loopback-address",
    "gloo/interface-not-found",
    "gloo/interface-unreachable",
    "environment/setting-mismatch",
    *LIMITS,
)
"""The checks that say why what the ranks do together fails: a stopped rank, or connections between the nodes."""

Suspect = Literal["from", "to", "either"]


# -- names and addresses --------------------------------------------------------------------------------------------


def together(names: Iterable[str]) -> str:
    """Names for a sentence: ``a``, ``a and b``, ``a, b and c``."""
    parts = list(names)
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def some(names: Iterable[str], limit: int = 8) -> str:
    """Names for a sentence, but for those beyond ``limit``, which are counted."""
    parts = list(names)
    if len(parts) <= limit:
        return together(parts)
    return f"{', '.join(parts[: limit - 2])} and {len(parts) - limit + 2} more"


def node0_name(cluster: Cluster, seen_from: Node | None = None) -> str:
    """Node 0's name: its own where its facts are here, else what /etc/hosts calls MASTER_ADDR, else ``node0``."""
    if cluster.node0 is not None:
        return cluster.node0.name
    sources = (seen_from,) if seen_from else cluster.nodes
    for node in sources:
        if node.facts.network and node.facts.network.master_name:
            return node.facts.network.master_name
    return "node0"


def claims_node0(node: Node) -> bool:
    """Whether this node takes itself for node 0: by its rank, by hosting the store, or as the owner of MASTER_ADDR."""
    plan, network, meeting = node.plan, node.facts.network, node.facts.meeting
    if plan.started == "rank":
        return plan.rank == 0 or 0 in node.ranks
    if meeting and meeting.hosted:
        return True
    if plan.node_rank is not None:
        return plan.node_rank == 0
    return bool(network and network.master_is_own)


def hosts_store(cluster: Cluster) -> Node | None:
    """Node 0 where its facts are here and say that it hosts the store, else None."""
    node = cluster.node0
    if node is None or not node.facts.meeting or not node.facts.meeting.hosted:
        return None
    bind = node.facts.network.bind if node.facts.network else None
    return node if bind is None or bind.ok else None


def has_others(cluster: Cluster, node: Node) -> bool:
    """Whether other hosts take part, as far as is known: they, too, may have to reach this node's addresses."""
    if len(cluster.nodes) > 1:
        return bool(cluster.peers(node))
    # Alone, and everything it talks to is on loopback: the others may well be on this host.
    master = node.facts.network.master if node.facts.network else None
    local = master is not None and bool(master.addresses) and all(map(is_loopback, master.addresses))
    return cluster.multi_host and not local and node.reached_at is not None and not is_loopback(node.reached_at)


def makes_gloo(node: Node) -> bool:
    """Whether a gloo group is planned, or was tried, on this node."""
    return node.plan.gloo_planned or any(s.stage == "gloo" and s.status != "skipped" for s in node.facts.stages)


def address_of(node: Node, cluster: Cluster | None = None, but: Container[str] = ()) -> str | None:
    """The address by which other hosts reach ``node``: by its routes, else one in a network it shares with another

    node of the cluster, else the first that is neither loopback nor on a bridge of containers. None without any.
    ``but``: addresses that it is not to be.
    """
    if node.reached_at and not is_loopback(node.reached_at) and node.reached_at not in but:
        return node.reached_at
    candidates = [(address, network) for address, network in _candidates(node) if address not in but]
    networks = {network for peer in (cluster.peers(node) if cluster else ()) for _, network in _candidates(peer)}
    for address, network in candidates:
        if network in networks:
            return address
    return candidates[0][0] if candidates else None


def _candidates(node: Node) -> list[tuple[str, tuple[int, int]]]:
    """Addresses of a node's interfaces, each with its network: (prefix length, number)."""
    found = []
    interfaces = node.facts.host.interfaces if node.facts.host else ()
    for interface in sorted(interfaces, key=lambda one: is_virtual(one.name)):
        if interface.loopback or not interface.up or is_bridge(interface.name):
            continue
        for address, length in zip(interface.addresses, interface.prefix_lengths, strict=False):
            parsed = parse(address)
            if parsed is not None and not parsed.is_loopback and not parsed.is_link_local:
                found.append((address, (length, int(parsed) >> (parsed.max_prefixlen - length))))
    return found


def primary_interface(node: Node) -> str | None:
    """The interface that reaches the other nodes, by this node's routes."""
    network = node.facts.network
    return network.primary.interface if network and network.primary else None


def own_names(node: Node) -> tuple[str, ...]:
    """What a node is called: its host name and, where that has dots, the first label."""
    hostname = node.facts.identity.hostname
    return tuple(dict.fromkeys((hostname, hostname.partition(".")[0])))


def names_loopback(node: Node) -> bool:
    """Whether MASTER_ADDR means, on this node, the node itself and nobody else: localhost, 127.x, ::1, or another
    host's name that resolves to one of these. A node's own name may: the store listens on every address."""
    master = node.plan.master_addr
    if master is None:
        return False
    if is_loopback(master) or master in ("localhost", "ip6-localhost", "localhost.localdomain"):
        return True
    network = node.facts.network
    resolved = network.master.addresses if network and network.master else ()
    return master not in own_names(node) and bool(resolved) and all(is_loopback(address) for address in resolved)


def holder_line(holder: PortHolder, port: int) -> str:
    """Who has the port, for the evidence."""
    held = f"{endpoint(holder.address, port)} is "
    held += f"the own end of a connection to {holder.peer}, " if holder.peer else ""
    if holder.pid is None:
        return f"{held}held by another user's process: not visible without root"
    return f"{held}held by {holder.name or 'a process'}, pid {holder.pid}, user {holder.user or '?'}"


# -- launch arithmetic ----------------------------------------------------------------------------------------------


def missing_ranks(cluster: Cluster) -> tuple[int, ...]:
    """The global ranks that nobody here claims, for processes started once per rank."""
    plans = [one.plan for one in cluster.slices or tuple(n.facts for n in cluster.nodes)]
    return _unclaimed((p.rank for p in plans), [p.world_size for p in plans])


def missing_node_ranks(cluster: Cluster) -> tuple[int, ...]:
    """The node ranks that no node here has, declared or assigned."""
    return _unclaimed((n.node_rank for n in cluster.nodes), [n.plan.nnodes for n in cluster.nodes])


def _unclaimed(claimed: Iterable[int | None], totals: Sequence[int | None]) -> tuple[int, ...]:
    known = [total for total in totals if total is not None]
    if not known:
        return ()
    total = max(known, key=lambda value: (known.count(value), value))
    # A total from a broken variable may be absurdly large; nobody needs the names of a million missing ranks.
    return tuple(sorted(set(range(min(total, 100_000))) - {rank for rank in claimed if rank is not None}))


# -- contact and firewalls ------------------------------------------------------------------------------------------


def contact_text(contact: Contact | None) -> str:
    """How an attempt to connect ended, for a sentence."""
    if contact is None:
        return "was never tried"
    told = f" (errno {contact.errno})" if contact.errno else ""
    ways = {
        "open": "was open",
        "refused": "refused the connection",
        "reset": "reset the connection",
        "no-answer": f"gave no answer in {contact.seconds:.1f} s" if contact.seconds else "gave no answer",
        "rejected": "was rejected by a firewall",
        "unreachable": "was unreachable",
        "wrong-node": "was answered by another process than the one meant",
        "stalled": "takes small payloads and never a large one",
        "error": "gave an error",
    }
    return f"{contact.address}:{contact.port} {ways[contact.outcome]}{told}"


def suspect(source: Node | None, target: Node | None, port: int) -> Suspect:
    """Whose packet filter blocks connections from ``source`` to ``target``'s ``port``, as far as the rules here say.

    The way back counts too: a filter on the target's way out drops its replies. None: a node whose facts are not here.
    """
    source_rules = source.facts.network.firewall if source and source.facts.network else None
    target_rules = target.facts.network.firewall if target and target.facts.network else None
    into, out = blocks(target_rules, "input", port), blocks(source_rules, "output", port)
    if into or out:
        return "either" if into and out else "to" if into else "from"
    reply_out, reply_in = blocks(target_rules, "output", port, "sport"), blocks(source_rules, "input", port, "sport")
    if reply_out or reply_in:
        return "either" if reply_out and reply_in and into is not None else "to" if reply_out else "from"
    if out is False and into is None:
        return "to"
    return "either"


def filter_evidence(node: Node, hook: Hook, port: int) -> tuple[str, ...]:
    """The chains and rules of a node that block the port, for the evidence; or that they could not be read."""
    rules = node.facts.network.firewall if node.facts.network else None
    if rules is None or not rules.readable:
        return (f"{node.name}: its firewall's rules were not seen ({(rules and rules.why_not) or 'not looked at'})",)
    lines = []
    for chain in rules.chains:
        if concerns(chain, port, "dport" if chain.hook == hook else "sport"):
            lines.append(f"{node.name}: {_chain_text(chain)}")
    return tuple(lines)


def _chain_text(chain: FirewallChain) -> str:
    head = f"{chain.tool} chain {chain.family} {chain.table} {chain.name} ({chain.hook}, policy {chain.policy})"
    shown = "; ".join(chain.blocking_rules[:3])
    more = f"; {len(chain.blocking_rules) - 3} more" if len(chain.blocking_rules) > 3 else ""
    return f"{head}: {shown}{more}" if shown else head


def blame_of(side: Suspect) -> Blame:
    """``one-of`` where it cannot be told which end it is."""
    return "one-of" if side == "either" else "all"
