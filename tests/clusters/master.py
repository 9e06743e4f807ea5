"""Clusters that do not get to the store on MASTER_PORT."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from distdoctor.model.facts import Answer, Bind, Contact, Firewall, FirewallChain, NodeFacts, PortHolder, ShutPort
from tests.checks.row import Facts
from tests.facts_builder import (
    PORT,
    blocking,
    healthy,
    outside,
    waited_in_vain,
    with_master,
    with_meeting,
    with_network,
)


def shut(
    outcome: str, *, control: str | None = None, rules: tuple[str, ...] = (), at: int = 0, hook: str = "input"
) -> Facts:
    """host1 does not get to the store of host0; ``rules`` of host ``at`` are why."""
    a, b = healthy(2)
    a, b = waited_in_vain(a), outside(b, outcome, control=control)
    if rules and at == 0:
        a = with_network(a, firewall=blocking(*rules, hook=hook))
    elif rules:
        b = with_network(b, firewall=blocking(*rules, hook=hook))
    return a, b


def service(outcome: str, *rules: str) -> Facts:
    """The master's address is that of a service, which no host has: node 0 gets there, and host1 does not. ``rules``:
    node 0's."""
    at, facts = "10.96.0.77", []
    for one in shut(outcome, rules=rules):
        one = with_master(one, "train-master", own=False, resolved=[at])
        contact = one.network.contact if one.network is not None else None
        here = replace(contact, address=at) if contact is not None else Contact(at, PORT, "open")
        facts.append(with_network(one, contact=here))
    return tuple(facts)


def own_rule(how: Literal["drop", "reject", "reset"], version: int = 4, came: int = 1) -> Facts:
    """Node 0 alone: its own filter's rule shuts MASTER_PORT; ``came``: nodes of its own host that did get there."""
    (a, *_) = healthy(2)
    rule = {"drop": "drop", "reject": "reject with icmpx port-unreachable", "reset": "reject with tcp reset"}[how]
    text = f"tcp dport {PORT} {rule}"
    chain = FirewallChain("nft", "inet", "filter", "input", "input", blocking_rules=(text,))
    shut_by = ShutPort(PORT, version, how, f"nft chain inet filter input: {text}")
    a = with_network(waited_in_vain(a, came + 1), firewall=Firewall(True, chains=(chain,), shut=(shut_by,)))
    return (with_meeting(a, arrived=tuple(f"host0 {number}" for number in range(came))),)


def held(answer: Answer | None, *holders: PortHolder, errno: int = 98) -> Facts:
    a, b = healthy(2, declared=True)
    bind = Bind(False, PORT, errno, "address already in use", holders, answer, 29501)
    a = with_network(outside(a, None), bind=bind, master_is_own=True)
    b = with_network(outside(b, "open" if errno == 98 else "refused"), answer=answer)
    if answer is not None and answer.kind == "tcpstore":
        a = with_network(with_meeting(a, ours=False), bind=None, answer=answer)
        b = with_meeting(b, ours=False)
    return a, b


SSHD = PortHolder("0.0.0.0", 77, "sshd", "root")


def named(one: NodeFacts, at: str, own: bool | None = False) -> NodeFacts:
    return with_master(one, "host0", own=own, resolved=[at])
