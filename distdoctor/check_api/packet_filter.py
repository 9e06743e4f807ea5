"""Packet filters as suspects: which chain of which node drops what was sent, and whom to blame for it."""

from __future__ import annotations

from typing import Literal

from distdoctor.knowledge.packet_filter import blocks, concerns
from distdoctor.knowledge.ruleset import FilterHook
from distdoctor.model.cluster import Node
from distdoctor.model.facts import FirewallChain

Suspect = Literal["from", "to", "either"]


def suspect(source: Node | None, target: Node | None, port: int) -> Suspect:
    """Whose packet filter blocks connections from ``source`` to ``target``'s ``port``, as far as the rules here say.

    The way back counts too: a filter on the target's way out drops its replies. None: a node whose facts are not here.
    """
    source_rules = source.network.firewall if source else None
    target_rules = target.network.firewall if target else None
    into, out = blocks(target_rules, "input", port), blocks(source_rules, "output", port)
    if into or out:
        return "either" if into and out else "to" if into else "from"
    reply_out, reply_in = blocks(target_rules, "output", port, "sport"), blocks(source_rules, "input", port, "sport")
    if reply_out or reply_in:
        return "either" if reply_out and reply_in and into is not None else "to" if reply_out else "from"
    if out is False and into is None:
        return "to"
    return "either"


def filter_evidence(node: Node, hook: FilterHook, port: int) -> tuple[str, ...]:
    """The chains and rules of a node that block the port, for the evidence; or that they could not be read."""
    rules = node.network.firewall
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
