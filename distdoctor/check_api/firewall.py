"""Packet filters as suspects: the chains that drop a connection's packets, and the node to blame."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from distdoctor.check_api.text import names_of
from distdoctor.knowledge.firewall.packet_filter import (
    Direction,
    FilterHook,
    blocks,
    concerns,
    lets_through,
    shuts_answers,
)
from distdoctor.model.addresses import is_loopback
from distdoctor.model.cluster import Node
from distdoctor.model.facts import Firewall, FirewallChain

Suspect = Literal["from", "to", "either"]
_SOURCE = re.compile(r"(?:\bsnat (?:ip6? )?to|--to-source) ([\da-fA-F.:]+)")
_TARGET = re.compile(r"(?:\bdnat (?:ip6? )?to|--to-destination) \[?([\da-fA-F:]+(?=\])|[\d.]+|[\da-fA-F:]+)")
_REDIRECTING = re.compile(r"\b(?:dnat|redirect)(?: to\b|$)|-j (?:DNAT|REDIRECT)\b", re.IGNORECASE)


def suspect(source: Node | None, target: Node | None, port: int) -> Suspect:
    """Return the node whose packet filter blocks connections from ``source`` to ``target``'s ``port``, by the known
    rules.

    Replies count, too: the target's outgoing filter may drop them. None: a node without facts.
    """
    source_rules, target_rules = _relevant_filter(source, target), _relevant_filter(target)
    if target is None:  # a rule that redirects to another address, such as a service's, may be the right way to it
        source_rules = _without(source_rules, _REDIRECTING)
    let_in = source is not None and target is not None and lets_between(target, "input", source, port)
    let_out = source is not None and target is not None and lets_between(source, "output", target, port)
    into, out = blocks(target_rules, "input", port), blocks(source_rules, "output", port)
    into, out = into and not let_in, out and (not let_out or rewrites_source(source, port))
    if into or out:
        return "either" if into and out else "to" if into else "from"
    reply_out, reply_in = blocks(target_rules, "output", port, "sport"), blocks(source_rules, "input", port, "sport")
    reply_out, reply_in = reply_out and not let_in, reply_in and not let_out
    if reply_out or reply_in:
        return "either" if reply_out and reply_in and into is not None else "to" if reply_out else "from"
    if out is False and into is None:
        return "to"
    return "either"


def shut_answers(source: Node, target: Node) -> tuple[str, ...]:
    """Return the rules of ``source`` that block replies to a range of its own outgoing ports.

    ``target`` has no blocking rule: some connections get no answer, depending on their random port.
    """
    rules = target.network.firewall
    if rules is None or not rules.readable or rules.chains:
        return ()
    picked = source.limits.port_range or (32768, 60999)
    return tuple(
        f"{source.name}: {_chain_text(replace(chain, blocking_rules=(rule,)))}: it also drops replies "
        "to its own connections from those ports"
        for chain, rule in shuts_answers(source.network.firewall, picked)
    )


def _relevant_filter(node: Node | None, target: Node | None = None) -> Firewall | None:
    """Return the packet filter of a node without rules that only rewrite addresses: to the node's own, or to the
    target's.

    Rules for the address of a service do this.
    """
    rules = node.network.firewall if node is not None else None
    if node is None or rules is None:
        return None
    own = {a for card in node.interfaces if not card.loopback for a in card.addresses}
    its = set(target.addresses) if target is not None else set()
    chains = (
        replace(
            chain,
            blocking_rules=tuple(
                rule for rule in chain.blocking_rules if _source(rule) not in own and _target(rule) not in its
            ),
        )
        for chain in rules.chains
    )
    return replace(rules, chains=tuple(chains))


def _without(rules: Firewall | None, which: re.Pattern[str]) -> Firewall | None:
    """Return the packet filter without such rules."""
    if rules is None:
        return None
    chains = (
        replace(chain, blocking_rules=tuple(rule for rule in chain.blocking_rules if not which.search(rule)))
        for chain in rules.chains
    )
    return replace(rules, chains=tuple(chains))


def _target(rule: str) -> str:
    """Return the address that a rule redirects packets to; empty if none, or if nft does not print it."""
    match = _TARGET.search(rule)
    return match[1] if match is not None else ""


def _source(rule: str) -> str:
    """Return the source address that a rule sets, empty if none."""
    match = _SOURCE.search(rule)
    return match[1] if match is not None else ""


def rewrites_source(node: Node | None, port: int | None) -> bool:
    """Return whether a rule rewrites the source of the node's packets to the port (None: any) to a foreign or loopback
    address.

    Replies to an address of none of its interfaces need not arrive, even if the packet filter accepts everything.
    """
    rules = _relevant_filter(node)
    for chain in rules.chains if rules is not None else ():
        its = tuple(filter(_source, chain.blocking_rules))
        if chain.hook == "output" and its and concerns(replace(chain, policy="accept", blocking_rules=its), port):
            return True
    return False


def lets_between(node: Node, hook: FilterHook, peer: Node, port: int) -> bool:
    """Return whether the rules of ``node`` certainly accept connections with ``peer``.

    ``hook`` input: from it to the own ``port``; output: to that port of it.
    """
    route = peer.network.route
    known = (peer.reached_at, peer.gloo_address, route.source if route is not None else None)
    used = [address for address in dict.fromkeys(known) if address is not None and not is_loopback(address)]
    master = node.plan.master_port
    return lets_through(node.network.firewall, hook, used, port if port == master else None)


def filter_evidence(node: Node, hook: FilterHook, port: int, peers: Sequence[Node] = ()) -> tuple[str, ...]:
    """Return the chains and rules of a node that block the port, as evidence.

    Also that they could not be read, or accept connections with the peers.
    """
    rules = node.network.firewall
    if rules is None or not rules.readable:
        return (f"{node.name}: its firewall's rules are unknown ({(rules and rules.why_not) or 'not looked at'})",)
    translated = hook == "output" and rewrites_source(node, port)
    if peers and not translated and all(lets_between(node, hook, peer, port) for peer in peers):
        where = f"to port {port}" if hook == "input" else f"to port {port} of them"
        return (f"{node.name}: the rules of its packet filter accept connections with {names_of(peers)} {where}",)
    lines = []
    for chain in rules.chains:
        if concerns(chain, port, "dport" if chain.hook == hook else "sport"):
            lines.append(f"{node.name}: {_chain_text(chain)}")
    return tuple(lines)


def forwarding_rules(node: Node, port: int) -> tuple[str, ...]:
    """Return the rules that forward the port to another host or port (such as a published container).

    Only if they alone keep packets from the listener; empty if other rules do, or none.
    """
    rules = node.network.firewall
    its_rules = []
    for chain in rules.chains if rules is not None else ():
        its = [
            rule
            for rule in chain.blocking_rules
            if concerns(replace(chain, blocking_rules=(rule,)), port, _port_side(chain))
        ]
        if not concerns(chain, port, _port_side(chain)):
            continue
        if chain.policy != "accept" or chain.hook != "input" or not all(map(_REDIRECTING.search, its)):
            return ()
        its_rules += its
    return tuple(its_rules)


def redirects(node: Node, port: int, target: Node | None) -> bool:
    """Return whether a rule of the node redirects its packets for that port of others, and not to the target."""
    rules = _relevant_filter(node, target)
    for chain in rules.chains if rules is not None else ():
        its = tuple(filter(_REDIRECTING.search, chain.blocking_rules))
        if chain.hook == "output" and its and concerns(replace(chain, policy="accept", blocking_rules=its), port):
            return True
    return False


def _port_side(chain: FirewallChain) -> Direction:
    """Return the side of this host's port in packets of its incoming connections."""
    return "dport" if chain.hook == "input" else "sport"


def _chain_text(chain: FirewallChain) -> str:
    head = f"{chain.tool} chain {chain.family} {chain.table} {chain.name} ({chain.hook}, policy {chain.policy})"
    shown = "; ".join(chain.blocking_rules[:3])
    more = f"; {len(chain.blocking_rules) - 3} more" if len(chain.blocking_rules) > 3 else ""
    return f"{head}: {shown}{more}" if shown else head
