"""A node as the checks see it: its facts, its name, and views of them that are never None."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from distdoctor.model.facts import (
    FirewallChain,
    HostFacts,
    Identity,
    Interface,
    Limits,
    MeetingFacts,
    MeshFacts,
    NetworkFacts,
    NodeFacts,
    Resolution,
)
from distdoctor.model.plan import Plan
from distdoctor.model.stages import STAGES, position

Part = Literal["host", "network", "meeting", "mesh"]
"""The parts of a node's facts, each of which one stage's probes see as a whole, or do not come to."""
NO_HOST, NO_LIMITS, NO_NETWORK = HostFacts(Resolution("")), Limits(), NetworkFacts()
NO_MEETING, NO_MESH = MeetingFacts(), MeshFacts()


@dataclass(frozen=True, eq=False)
class Node:
    """One node that was met (or whose facts file was given)."""

    name: str
    """Unique in the cluster: the host name, with ``#<node_rank>`` where several nodes have the same."""
    facts: NodeFacts
    node_rank: int | None
    keys: tuple[str, ...]
    """The keys of the processes this node's facts come from (one, or one per rank)."""

    @property
    def plan(self) -> Plan:
        """This node's plan."""
        return self.facts.plan

    def saw(self, part: Part) -> bool:
        """Whether this part of the facts is there; where it is not, its view is empty."""
        return getattr(self.facts, part) is not None

    @property
    def stood_still(self) -> str:
        """The stage at which node 0 waited for it in vain though its process was there, if it was not heard of after
        that; else empty."""
        stages = [entry for entry in self.facts.stages if entry.stage in STAGES]
        last = max(stages, key=lambda entry: position(entry.stage), default=None)
        return last.stage if last is not None and last.stood_still else ""

    @property
    def identity(self) -> Identity:
        """Which process on which host this is, its user, its Python and its torch."""
        return self.facts.identity

    @property
    def variables(self) -> dict[str, str]:
        """The launch and backend variables that were set."""
        return self.facts.variables

    @property
    def system(self) -> HostFacts:
        """What the host is like (``facts.host``): its names, its interfaces, what the backends pick, its left-overs."""
        return self.facts.host or NO_HOST

    def where_set(self, name: str) -> str:
        """The file that NCCL takes this variable from; empty where it is in the environment, or not set."""
        return self.facts.variable_files.get(name, "")

    @property
    def limits(self) -> Limits:
        """What the kernel lets the node's processes use: each value is None where it is not known."""
        return self.system.limits or NO_LIMITS

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        """The interfaces of the host."""
        return self.system.interfaces

    @property
    def network(self) -> NetworkFacts:
        """What the node saw of the way to its master."""
        return self.facts.network or NO_NETWORK

    @property
    def master_addresses(self) -> tuple[str, ...]:
        """The addresses of MASTER_ADDR, as this node resolves it."""
        return self.network.master.addresses if self.network.master else ()

    @property
    def filter_chains(self) -> tuple[FirewallChain, ...]:
        """The chains of the host's packet filter that can block, as far as they could be read."""
        return self.network.firewall.chains if self.network.firewall else ()

    @property
    def meeting(self) -> MeetingFacts:
        """How the meeting of the nodes went, as this node saw it."""
        return self.facts.meeting or NO_MEETING

    @property
    def mesh(self) -> MeshFacts:
        """What the node saw of its links to the others."""
        return self.facts.mesh or NO_MESH

    @cached_property
    def host(self) -> tuple[str, str, str]:
        """What two nodes on the same host (and network namespace) have in common; what it is like: ``system``."""
        return self.facts.identity.host

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """The global ranks known to be on this node."""
        return tuple(r.rank for r in self.facts.ranks if r.rank is not None)

    @cached_property
    def addresses(self) -> tuple[str, ...]:
        """Every address on an interface of this node."""
        return tuple(a for i in self.interfaces for a in i.addresses)

    def interface_of(self, address: str | None) -> str | None:
        """The interface of this node that has ``address``, or None."""
        return self._interfaces.get(address) if address else None

    @cached_property
    def _interfaces(self) -> dict[str, str]:
        """Address -> the interface that has it; the first one, where several do."""
        return {a: i.name for i in reversed(self.interfaces) for a in i.addresses}

    @cached_property
    def gloo_address(self) -> str | None:
        """The address gloo really advertised on this node, else the one predicted; of several devices, the first's."""
        choice = self.system.gloo
        if self.system.gloo_more:
            return choice.address if choice else None  # a rank listens on the addresses of all of them
        for rank in self.facts.ranks:
            for stage in rank.stages:
                if stage.stage == "gloo" and stage.detail.get("address"):
                    return str(stage.detail["address"])
        return choice.address if choice else None

    @cached_property
    def gloo_addresses(self) -> tuple[str, ...]:
        """The addresses of all of gloo's devices on this node, in their order: the ranks connect on each of them."""
        more = (choice.address for choice in self.system.gloo_more)
        return tuple(address for address in (self.gloo_address, *more) if address is not None)

    @cached_property
    def gpus(self) -> bool:
        """Whether any rank here sees a device."""
        return any(rank.gpu is not None and bool(rank.gpu.visible) for rank in self.facts.ranks)

    @cached_property
    def reached_at(self) -> str | None:
        """The address by which other hosts reach this node, as far as this node's routes say."""
        return self.network.primary.address if self.network.primary else None
