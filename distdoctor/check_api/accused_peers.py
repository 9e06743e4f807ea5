"""Whom the errors of ranks name: the peer that a connection failed to is the suspect, not whoever reports it.

Texts: gloo/transport/tcp (``Connection refused, remote=[10.0.0.5]:41904``, ``Read error [10.0.0.5]:40123: Connection
reset by peer``), c10d, which names a store's host as ``(host0, 29500)`` and in a time-out the key that a rank never
wrote (``keys: /default_pg/0//cpu//0/1``), and NCCL's socket.cc (``Connect to 10.0.0.5<40123> failed``). Those of gloo
and c10d were seen in runs of torch 2.13, NCCL's in public reports.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from distdoctor.check_api.node_addresses import own_host_names
from distdoctor.model.addresses import is_loopback, parse_address
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.findings import Blame

_REMOTE = re.compile(r"remote=\[([0-9a-fA-F.:]+)(?:%\w+)?\]")
_PLACE = re.compile(r"(?<!local=)\[([0-9a-fA-F.:]+)(?:%\w+)?\]|\b([0-9a-fA-F.:]+)<\d+>")
_HOST = re.compile(r"\(([^\s,()]+), \d+\)")
_KEY = re.compile(r"wait timeout after \d+ ?ms, keys: \S*?/(\d+)(?![\w/])")
_ANSWERED = re.compile(r"(?i)refused|reset by peer|closed by (?:remote )?peer|broken pipe")
"""The host that is named answers, or did before: the way there is open."""
_WAITED = re.compile(r"(?i)timed? ?out|did not return|another rank failed")

Said = tuple[Node, str]
"""A node, and the error of one of its ranks."""


@dataclass(frozen=True)
class Accused:
    """Whom the errors of a stage are to be blamed on."""

    nodes: tuple[Node, ...]
    blame: Blame
    reporters: tuple[Node, ...] = ()
    """The other nodes, whose errors name these; empty where it is an error of these nodes' own."""
    place: str | None = None
    """The address that the reporters name."""


def accused(cluster: Cluster, said: Sequence[Said]) -> Accused:
    """Whom these errors are to be blamed on.

    One that names no other node is of the rank's own and is the cause. One that names a peer accuses the peer: the one
    whom all name, and surely where several nodes name it or it has answered them. A time-out that names nobody accuses
    nobody.
    """
    named = [(node, text, culprits(cluster, node, text)) for node, text in said]
    own = {node for node, text, others in named if not others and not _WAITED.search(text)}
    if own:
        return Accused(_in_order(cluster, own), "all")
    accusing = [one for one in named if one[2]]
    if not accusing:
        waiting = {node for node, _ in said}
        waiting = set(cluster.nodes) if len(waiting) == 1 else waiting
        return Accused(_in_order(cluster, waiting), "one-of" if len(waiting) > 1 else "all")
    by_node: dict[Node, set[Node]] = {}
    for node, _, others in accusing:
        by_node.setdefault(node, set()).update(others)
    whom = {one for others in by_node.values() for one in others}
    agreed = {one for one in whom if all(one in others for node, others in by_node.items() if node is not one)}
    if len(agreed) != 1:
        suspects = whom | set(by_node)
        return Accused(_in_order(cluster, suspects), "one-of" if len(suspects) > 1 else "all")
    (culprit,) = agreed
    reporters = {node for node in by_node if node is not culprit}
    texts = [text for node, text, _ in accusing if node is not culprit]
    places = [place for text in texts for place in addresses(text)]
    sure = len(reporters) != 1 or all(_ANSWERED.search(text) for text in texts)
    return Accused(
        (culprit,) if sure else _in_order(cluster, {culprit, *reporters}),
        "all" if sure else "one-of",
        _in_order(cluster, reporters),
        places[0] if places else None,
    )


def addresses(text: str) -> tuple[str, ...]:
    """The addresses of peers in an error: those called remote, else every one but its own."""
    found = _REMOTE.findall(text) or [one or other for one, other in _PLACE.findall(text)]
    return tuple(dict.fromkeys(address for address in found if parse_address(address) is not None))


def culprits(cluster: Cluster, reporter: Node, text: str) -> set[Node]:
    """The nodes that an error names, by an address that they have or gloo advertises there, a host name or a rank.

    Of a loopback address it is those others whose gloo advertises it: on the reporter's own host nobody listens there.
    """
    found: set[Node] = set()
    for place in addresses(text):
        found |= _owners(cluster, reporter, place)
    for name in _HOST.findall(text):
        found |= {n for n in cluster.nodes if name in own_host_names(n)} or _owners(cluster, reporter, name)
        if not found and name == reporter.plan.master_addr and cluster.node0 is not None:
            found.add(cluster.node0)
    for rank in map(int, _KEY.findall(text)):
        found |= {node for node in cluster.nodes if rank in node.ranks}
    return found


def _owners(cluster: Cluster, reporter: Node, place: str) -> set[Node]:
    number = parse_address(place)
    if number is None:
        return set()
    offered = {n for n in cluster.nodes if number in map(parse_address, n.gloo_addresses)}
    if is_loopback(place):
        return offered - {reporter} if len(cluster.hosts) > 1 else offered
    return offered or {n for n in cluster.nodes if any(parse_address(address) == number for address in n.addresses)}


def _in_order(cluster: Cluster, nodes: set[Node]) -> tuple[Node, ...]:
    return tuple(node for node in cluster.nodes if node in nodes)
