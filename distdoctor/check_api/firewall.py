"""Packet filters as suspects: which chain of which node drops what was sent, and whom to blame for it."""

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
_ELSEWHERE = re.compile(r"\b(?:dnat|redirect)(?: to\b|$)|-j (?:DNAT|REDIRECT)\b", re.IGNORECASE)


def suspect(source: Node | None, target: Node | None, port: int) -> Suspect:
    """Return whose packet filter blocks connections from ``source`` to ``target``'s ``port``, as far as the rules
    here say.

    The way back counts too: a filter on the target's way out drops its replies. None: a node whose facts are not here.
    """
    source_rules, target_rules = _told(source, target), _told(target)
    if target is None:  # a rule that sends this to another address may be what leads to it, as that of a service
        source_rules = _without(source_rules, _ELSEWHERE)
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
    """The rules of ``source`` that shut a range of the ports that its own connections come from, where those of
    ``target`` shut nothing: of its connections there some get no answer, by the port that each happens to get."""
    rules = target.network.firewall
    if rules is None or not rules.readable or rules.chains:
        return ()
    picked = source.limits.port_range or (32768, 60999)
    return tuple(
        f"{source.name}: {_chain_text(replace(chain, blocking_rules=(rule,)))}: what answers its own connections from "
        "those ports is shut out, too"
        for chain, rule in shuts_answers(source.network.firewall, picked)
    )


def _told(node: Node | None, target: Node | None = None) -> Firewall | None:
    """The packet filter of a node, without its rules that only make what it sends come from an address of its own, or
    go to one of the target's, as those for the address of a service do."""
    rules = node.network.firewall if node is not None else None
    if node is None or rules is None:
        return None
    own = {a for one in node.interfaces if not one.loopback for a in one.addresses}
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
    """The packet filter without such rules."""
    if rules is None:
        return None
    chains = (
        replace(chain, blocking_rules=tuple(rule for rule in chain.blocking_rules if not which.search(rule)))
        for chain in rules.chains
    )
    return replace(rules, chains=tuple(chains))


def _target(rule: str) -> str:
    """The address that a rule sends packets to instead; empty where it does not, or where nft does not tell."""
    found = _TARGET.search(rule)
    return found[1] if found is not None else ""


def _source(rule: str) -> str:
    """The address that a rule makes packets come from; empty where it does nothing of the kind."""
    found = _SOURCE.search(rule)
    return found[1] if found is not None else ""


def rewrites_source(node: Node | None, port: int | None) -> bool:
    """Return whether a rule of the node makes what it sends to the port (None: to any) come from an address of none
    of its interfaces, or of loopback: answers need not find back to that, though the packet filter lets all through."""
    rules = _told(node)
    for chain in rules.chains if rules is not None else ():
        its = tuple(filter(_source, chain.blocking_rules))
        if chain.hook == "output" and its and concerns(replace(chain, policy="accept", blocking_rules=its), port):
            return True
    return False


def lets_between(node: Node, hook: FilterHook, peer: Node, port: int) -> bool:
    """Return whether the rules of ``node`` for certain let connections through with ``peer``: from it to the own
    ``port`` (``hook`` input), or to that port of it (output)."""
    route = peer.network.route
    known = (peer.reached_at, peer.gloo_address, route.source if route is not None else None)
    used = [one for one in dict.fromkeys(known) if one is not None and not is_loopback(one)]
    master = node.plan.master_port
    return lets_through(node.network.firewall, hook, used, port if port == master else None)


def filter_evidence(node: Node, hook: FilterHook, port: int, peers: Sequence[Node] = ()) -> tuple[str, ...]:
    """The chains and rules of a node that block the port, for the evidence; or that they could not be read, or let
    connections with the peers through."""
    rules = node.network.firewall
    if rules is None or not rules.readable:
        return (f"{node.name}: its firewall's rules were not seen ({(rules and rules.why_not) or 'not looked at'})",)
    translated = hook == "output" and rewrites_source(node, port)
    if peers and not translated and all(lets_between(node, hook, peer, port) for peer in peers):
        where = f"in to port {port}" if hook == "input" else f"out to port {port} of them"
        return (f"{node.name}: the rules of its packet filter let connections with {names_of(peers)} {where}",)
    lines = []
    for chain in rules.chains:
        if concerns(chain, port, "dport" if chain.hook == hook else "sport"):
            lines.append(f"{node.name}: {_chain_text(chain)}")
    return tuple(lines)


def forwarding_rules(node: Node, port: int) -> tuple[str, ...]:
    """The rules of a node that send what comes to the port to another host or port (a container that was published
    there), where they alone keep it from who listens; empty where other rules do, or none."""
    rules = node.network.firewall
    found = []
    for chain in rules.chains if rules is not None else ():
        its = [
            one for one in chain.blocking_rules if concerns(replace(chain, blocking_rules=(one,)), port, _way(chain))
        ]
        if not concerns(chain, port, _way(chain)):
            continue
        if chain.policy != "accept" or chain.hook != "input" or not all(map(_ELSEWHERE.search, its)):
            return ()
        found += its
    return tuple(found)


def redirects(node: Node, port: int, target: Node | None) -> bool:
    """Return whether a rule of the node sends what it means for that port of others to another host or port, and not
    to the target."""
    rules = _told(node, target)
    for chain in rules.chains if rules is not None else ():
        its = tuple(filter(_ELSEWHERE.search, chain.blocking_rules))
        if chain.hook == "output" and its and concerns(replace(chain, policy="accept", blocking_rules=its), port):
            return True
    return False


def _way(chain: FirewallChain) -> Direction:
    """Return where in what it sees of connections to this host their port is."""
    return "dport" if chain.hook == "input" else "sport"


def _chain_text(chain: FirewallChain) -> str:
    head = f"{chain.tool} chain {chain.family} {chain.table} {chain.name} ({chain.hook}, policy {chain.policy})"
    shown = "; ".join(chain.blocking_rules[:3])
    more = f"; {len(chain.blocking_rules) - 3} more" if len(chain.blocking_rules) > 3 else ""
    return f"{head}: {shown}{more}" if shown else head
