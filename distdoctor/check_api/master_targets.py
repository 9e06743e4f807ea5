"""Where the nodes look for node 0, as a place and not as a spelling, and which of these places is the right one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from distdoctor.check_api.led_to import arrived, leading_to, met
from distdoctor.check_api.node_addresses import master_means_itself
from distdoctor.model.addresses import is_loopback, parse_address
from distdoctor.model.cluster import Cluster, Node

Host = tuple[str, str, str]
MasterTarget = tuple[object, int]
"""(host of the cluster, or addresses that are none of its; port)."""


def master_targets(cluster: Cluster) -> dict[str, MasterTarget]:
    """Where MASTER_ADDR and MASTER_PORT lead from each node for which that is known."""
    owners: dict[object, Host] = {}
    for node in reversed(cluster.nodes):
        owners.update({parse_address(address): node.host for address in node.addresses})
    found: dict[str, MasterTarget] = {}
    zero, elsewhere = cluster.node0, _meant_elsewhere(cluster)
    owners.update(dict.fromkeys(leading_to(cluster, zero) - owners.keys(), zero.host) if zero is not None else {})
    for node in cluster.nodes:
        if zero is not None and met(node) and arrived(zero, node):
            # It got there, whatever it calls the place: a service's address, or a published port that is forwarded.
            found[node.name] = (zero.host, zero.plan.master_port)
            continue
        place = _where(cluster, node, owners, elsewhere)
        if place is not None:
            found[node.name] = (place, node.plan.master_port)
    return found


def _where(
    cluster: Cluster, node: Node, owners: Mapping[object, Host], elsewhere: Mapping[str, set[Host]]
) -> object | None:
    """What MASTER_ADDR leads to from this node: a host of the cluster, else its addresses; None where not known."""
    addresses, contact = node.master_addresses, node.network.contact
    if len(addresses) > 1 and contact and met(node):
        # A store client tries one address after the other: a name that means every node (a headless service) leads
        # each of them, its own address refused, to the one that hosts the store.
        addresses = (contact.address,)
    # A name that means just this node itself here, and another host on others: its own file is wrong.
    only_here = any(host != node.host for host in elsewhere.get(node.plan.master_addr or "", ()))
    if not addresses or (cluster.multi_host and not only_here and master_means_itself(node)):
        return None
    numbers = [parse_address(address) for address in addresses]
    own = {parse_address(address) for address in node.addresses}
    if any(is_loopback(address) for address in addresses) or any(number in own for number in numbers):
        return node.host
    for number in numbers:
        if number in owners:
            return owners[number]
    return frozenset(map(str, numbers))


def _meant_elsewhere(cluster: Cluster) -> dict[str, set[Host]]:
    """The hosts on which a name of MASTER_ADDR does not mean just each node itself, by the name."""
    found: dict[str, set[Host]] = {}
    for node in cluster.nodes:
        if node.plan.master_addr and node.master_addresses and not master_means_itself(node):
            found.setdefault(node.plan.master_addr, set()).add(node.host)
    return found


def shared_master_address(cluster: Cluster, node: Node, right: MasterTarget) -> str | None:
    """The address that ``node`` takes for the master's and has itself, as the host at the right place has it, too."""
    own = {a for other in cluster.nodes if other.host == right[0] for a in other.addresses if not is_loopback(a)}
    resolved = node.master_addresses
    return next((a for a in resolved if a in own and a in node.addresses and node.host != right[0]), None)


def names_leading_apart(cluster: Cluster, found: Mapping[str, MasterTarget]) -> dict[str, list[Node]]:
    """Host names that lead to different places, each with the nodes that use them on one and the same port.

    And addresses that do: those that several hosts have.
    """
    groups: dict[tuple[str, int], list[Node]] = {}
    for node in cluster.nodes:
        name = node.plan.master_addr
        if node.name in found and name is not None:
            groups.setdefault((name, node.plan.master_port), []).append(node)
    return {name: nodes for (name, _), nodes in groups.items() if len({found[node.name] for node in nodes}) > 1}


def rightful_master_target(nodes: Sequence[Node], found: Mapping[str, MasterTarget]) -> tuple[MasterTarget, bool]:
    """(the place that is taken for the right one, whether that is sure)."""
    said = Counter(found[node.name] for node in nodes)
    arrived = Counter[MasterTarget]()
    elsewhere = any(isinstance(found[node.name][0], frozenset) for node in nodes)
    whole = not elsewhere or len(nodes) >= (nodes[0].plan.nnodes or 0)
    for node in nodes:
        # Who hosts a store to which nobody came need not be node 0 where others look for it on a host that is not here
        chosen = whole or len(node.meeting.arrived) > 1 or 0 in (node.plan.node_rank, node.plan.rank)
        if node.meeting.hosted and chosen:
            arrived[found[node.name]] = max(arrived[found[node.name]], len(node.meeting.arrived), 1)
    usual, votes = said.most_common(1)[0]
    lonely = [target for target, came in arrived.items() if came == 1 and target != usual and target[0] == usual[0]]
    if lonely and all(votes > said[target] for target in lonely) and len(lonely) == len(arrived):
        return usual, True  # nobody came to that store: more look on its host for another port
    for counts in (arrived, said):
        ranked = counts.most_common(2)
        if len(ranked) == 1 or (len(ranked) == 2 and ranked[0][1] > ranked[1][1]):
            return ranked[0][0], True
    declared = [n for n in nodes if n.plan.node_rank == 0 or n.plan.rank == 0]
    if len(declared) == 1 and (not declared[0].saw("meeting") or found[declared[0].name] in arrived):
        return found[declared[0].name], True
    return found[nodes[0].name], False
