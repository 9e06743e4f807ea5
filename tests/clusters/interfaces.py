"""Clusters whose gloo is told its interfaces."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.knowledge import gloo
from distdoctor.model.facts import Interface, NodeFacts
from tests.checks.row import Facts
from tests.facts_builder import healthy, with_host

DEBUG, BARRIER, IFNAME = "TORCH_DISTRIBUTED_DEBUG", "TORCH_DIST_INIT_BARRIER", "GLOO_SOCKET_IFNAME"


def interfaces(*values: str | None, shared: bool = True) -> Facts:
    """GLOO_SOCKET_IFNAME on each node, which has eth0 and, where the value names it, eth1."""
    facts: list[NodeFacts] = []
    for number, (one, value) in enumerate(zip(healthy(len(values)), values, strict=True)):
        assert one.host is not None
        network = "10.99.0" if shared else f"10.{90 + number}.0"
        second = Interface("eth1", (f"{network}.{10 + number}",), (24,), mtu=1500)
        ours = (*one.host.interfaces, second) if "eth1" in (value or "") else one.host.interfaces
        given = {IFNAME: value} if value else {}
        choice = gloo.predict(given, one.host.own_name, ours, lambda address: True)
        one = replace(one, variables=given)
        facts.append(with_host(one, interfaces=ours, gloo=choice, gloo_more=gloo.further_addresses(given, ours)))
    return tuple(facts)
