"""Node 0's own packet filter, as the reason why nobody comes: what it knows before any other node's facts are here."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection

from distdoctor.check_api.fixes import open_firewall_fix
from distdoctor.check_api.nodes import missing_node_ranks, missing_ranks, store_host
from distdoctor.check_api.packet_filter import forwarding_rules
from distdoctor.check_api.routes import networks
from distdoctor.model.addresses import parse_address
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import ShutPort
from distdoctor.model.findings import Finding

SHOWN = 8
"""How many of those who did not come are told by name."""
_REDIRECT = re.compile(r"\bredirect to :(\d+)|-j REDIRECT --to-ports (\d+)|(?<!-j )\bREDIRECT$")
"""nft's own, iptables', and iptables-nft's as nft shows it: it does not tell to which port. ``-j REDIRECT`` alone is to
the same one."""


def shuts_itself(cluster: Cluster, how: str, outcomes: Collection[str]) -> Node | None:
    """Node 0, where it hosts the store, is not met by any other host, and shuts its port itself; else None.

    ``how``: a ``ShutPort.how``; ``outcomes``: what that looks like for others; who saw something else is against it.
    """
    zero = store_host(cluster)
    if zero is None or not _waits_in_vain(cluster, zero, outcomes):
        return None
    rules = _shutting(zero)
    return zero if rules and rules[0].how == how else None


def own_filter_finding(cluster: Cluster, zero: Node) -> Finding:
    """The finding about such a node 0, where no other node's facts are here."""
    port, name = zero.plan.master_port, zero.name
    return Finding.about(
        (name,),
        f"{name}'s own packet filter shuts port {port}, on which it waits for the others.",
        links=((other, name) for other in _absent(cluster, zero)),
        evidence=(f"{name}: {one.rule}" for one in _shutting(zero)),
        fixes=(open_firewall_fix(zero, name, "input", _neighbourhood(zero), port),),
    )


def _waits_in_vain(cluster: Cluster, zero: Node, outcomes: Collection[str]) -> bool:
    """Whether nobody came to ``zero`` from another host, and none that tried saw anything but ``outcomes``."""
    meeting = zero.meeting
    if not meeting.ended or len(meeting.arrived) >= meeting.expected or not cluster.multi_host:
        return False
    for peer in cluster.peers(zero):
        contact = peer.network.contact
        if peer.meeting.joined or (contact is not None and contact.outcome not in outcomes):
            return False
    hostname = zero.identity.hostname
    return all(key.partition(" ")[0] == hostname for key in meeting.arrived)


def _absent(cluster: Cluster, zero: Node) -> list[str]:
    """Those who did not come, by the launcher's list, else by their numbers."""
    plan, numbers = zero.plan, missing_node_ranks(cluster)
    if plan.started == "rank":
        numbers = tuple(dict.fromkeys(rank // (plan.nproc_per_node or 1) for rank in missing_ranks(cluster)))
    return [plan.roster[n] if n < len(plan.roster) else f"node{n}" for n in numbers[:SHOWN]]


def _shutting(zero: Node) -> list[ShutPort]:
    """The chains that shut MASTER_PORT on every address at which it is looked for; or the rules that send what comes to
    it to another port, where nobody listens, as a TCP reset says."""
    addresses = zero.master_addresses or ((zero.reached_at,) if zero.reached_at else ())
    parsed = [number for at in addresses if (number := parse_address(at)) is not None and not number.is_loopback]
    versions = {number.version for number in parsed} or {4, 6}
    rules = zero.network.firewall.shut if zero.network.firewall else ()
    found = [one for one in rules if one.port == zero.plan.master_port and one.version in versions]
    if {one.version for one in found} == versions:
        return found
    port, redirecting = zero.plan.master_port, forwarding_rules(zero, zero.plan.master_port)
    elsewhere = bool(redirecting) and all(_to_another(rule, port) for rule in redirecting)
    return [ShutPort(port, 4, "reset", rule) for rule in redirecting] if elsewhere and versions == {4} else []


def _to_another(rule: str, port: int) -> bool:
    """Whether a rule redirects what is for the port to another one of the host."""
    found = _REDIRECT.search(rule)
    return found is not None and str(port) not in found.groups()


def _neighbourhood(zero: Node) -> tuple[str, ...]:
    """The network of the address by which the others reach it."""
    at = zero.reached_at or next(iter(zero.master_addresses), None)
    found = (ipaddress.ip_network(f"{own}/{length}", strict=False) for _, own, length in networks(zero) if own == at)
    return tuple(map(str, found))
