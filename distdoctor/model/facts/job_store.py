"""What a job's store holds, as one that only reads it can see: who wrote that it is there, and with which numbers.

Whoever reaches a store can write into it: what is here is what somebody wrote, cleaned and within bounds, and no more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from distdoctor.model.facts.network import Contact

StoreState = Literal["read", "partly", "silent", "closed", "foreign", "unreached"]
"""``read``: a TCPStore, read whole. ``partly``: a TCPStore; time ran out, or the connection ended, before all was read.
``silent``: it takes connections and says nothing. ``closed``: it hangs up. ``foreign``: another service.
``unreached``: no connection, or no address of that name (``contact`` and ``problems`` say why)."""
MAX_TOLD = 1024
"""How many members of one group have their addresses told."""


@dataclass(frozen=True)
class Member:
    """What one rank wrote about itself when it joined a group."""

    rank: int
    host: str = ""
    """What its own host calls itself; empty where it was not read or not written."""
    address: str = ""
    """Where its gloo listens for the others; empty as above."""
    port: int | None = None
    world: int | None = None
    """How many ranks it believes the group has; None where it did not write so."""


@dataclass(frozen=True)
class GroupView:
    """One process group on one kind of device: who wrote that it is there."""

    path: str
    """The names of the groups from the default one down, as in the store: ``default_pg/0``, ``default_pg/0//1``."""
    device: str = "cpu"
    joined: tuple[int, ...] = ()
    """The ranks of this group that wrote their addresses, in order. With NCCL no rank writes any."""
    members: tuple[Member, ...] = ()
    """What they wrote, of the first MAX_TOLD that were read."""
    communicators: int = 0
    """NCCL's: how many were begun (their first ranks wrote an id)."""
    timed_out: bool = False
    """NCCL's watchdog wrote that an operation timed out or failed."""
    attempt: int | None = None
    """The restart that these ranks belong to, where the keys say (torchrun of torch 2.1 to 2.5)."""

    @property
    def default(self) -> bool:
        """Whether this is the group that init_process_group makes."""
        return "//" not in self.path

    @property
    def worlds(self) -> dict[int, tuple[int, ...]]:
        """The sizes that its members believe the group has, with the ranks that do; the most common first."""
        counted = Counter(member.world for member in self.members if member.world is not None)
        return {
            size: tuple(member.rank for member in self.members if member.world == size)
            for size, _ in sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
        }

    @property
    def world(self) -> int | None:
        """How many ranks the group has, as most of its members believe."""
        return next(iter(self.worlds), None)


@dataclass(frozen=True)
class AgentView:
    """One torchrun agent, that is: one node of the job."""

    node: int | None = None
    """Its node rank, once that is known."""
    ranks: int | None = None
    """How many ranks it starts."""
    first_rank: int | None = None
    """The lowest rank that it was given."""
    world: int | None = None
    """How many ranks all of them start, as it was told."""
    host: str = ""
    """What it calls its host (only with the c10d rendezvous)."""
    pid: int | None = None
    heartbeat_age: float | None = None
    """Seconds since it last said that it lives, by this host's clock; torchrun says so every 5 s."""


@dataclass(frozen=True)
class RendezvousView:
    """The state of torchrun's c10d rendezvous."""

    run_id: str
    round: int | None = None
    """Counts from 0; one higher after each restart. None where nobody came yet or the state could not be read."""
    complete: bool = False
    closed: bool = False
    agents: tuple[AgentView, ...] = ()
    """Those who joined this round; their node ranks only where it is complete."""
    waiting: tuple[AgentView, ...] = ()
    """Those who came too late for this round and wait for the next."""
    master: str = ""
    """``host:port`` of the store at which the ranks meet, as it was announced."""
    problem: str = ""
    """Why the state could not be read."""


@dataclass(frozen=True)
class StoreView:
    """What one store answered. Nothing was written to it, and nothing in it was counted up."""

    host: str
    port: int
    state: StoreState = "unreached"
    contact: Contact | None = None
    sample: str = ""
    """The start of what another service said."""
    generation: str = ""
    """Of torch, by the protocol that it speaks: ``2.10+``, ``2.5-2.9``, ``2.2-2.4``, ``<=2.1``; empty if not known."""
    keys: int | None = None
    clients: int | None = None
    """How many clients that know how many they must be have come, over all restarts: ranks, and torchrun's agents where
    they use the same store. None where none has."""
    agents: tuple[AgentView, ...] = ()
    """torchrun's, as they share out the ranks in this store."""
    groups: tuple[GroupView, ...] = ()
    rendezvous: tuple[RendezvousView, ...] = ()
    barriers: dict[str, int] = field(default_factory=dict)
    """Barriers over the store: group -> how many came."""
    debug_servers: dict[int, str] = field(default_factory=dict)
    """rank -> URL of its worker server, where torch.distributed.debug runs."""
    leaving: int = 0
    """How many agents wrote that they are done."""
    hosted_by: Literal["", "rank 0", "agent"] = ""
    """Who serves the store, where that is known."""
    expected_world: int | None = None
    """How many ranks the job has, as whoever asked knew."""
    via: str = ""
    """``host:port`` of the rendezvous that named this store; empty where it was asked for."""
    complete_list: bool = False
    """Every key was seen; else only those whose names can be foreseen."""
    problems: tuple[str, ...] = ()
    """What could not be read, and why."""
    seconds: float = 0.0
    """How long the looking took."""

    def rendezvous_of(self, run_id: str) -> tuple[RendezvousView, ...]:
        """That of the job with this id, where it is among them; else all."""
        return tuple(one for one in self.rendezvous if one.run_id == run_id) or self.rendezvous

    @property
    def known(self) -> bool:
        """Whether it is a TCPStore that answered."""
        return self.state in ("read", "partly")

    @property
    def default_group(self) -> GroupView | None:
        """The group of init_process_group on the newest attempt; that of the most members, where there are several."""
        found = [group for group in self.groups if group.default]
        return max(found, key=lambda group: (group.attempt or 0, len(group.joined)), default=None)

    @property
    def world(self) -> int | None:
        """How many ranks the job has: as was asked for, as torchrun shared out, or as the ranks believe."""
        if self.expected_world:
            return self.expected_world
        shared = Counter(agent.world for agent in self.agents if agent.world)
        if shared:
            return shared.most_common(1)[0][0]
        group = self.default_group
        return group.world if group else None

    @property
    def arrived(self) -> int | None:
        """How many ranks came to the store, over all restarts; None where it cannot be told from who else came."""
        group = self.default_group
        if self.clients is None:
            return None
        if self.via:  # the agents met elsewhere
            return self.clients
        if self.hosted_by == "agent" and not self.agents and not (group and group.joined):
            return None
        return max(0, self.clients - len(self.agents))

    @property
    def rank_0_waits(self) -> bool:
        """Rank 0 serves the store and still counts who comes: it writes its address only when all have."""
        group, arrived = self.default_group, self.arrived
        joined = group.joined if group else ()
        agents_here = not self.via and (self.agents or self.rendezvous)  # else they met elsewhere
        if self.hosted_by == "agent" or agents_here or arrived is None or 0 in joined:
            return False
        # Alone, a client may as well be the agent of torchrun's first node.
        return arrived > len(joined) and not self.restarted and bool(joined or self.hosted_by)

    @property
    def restarted(self) -> bool:
        """More ranks came than the job has: some came twice, and what is written may be from before."""
        return self.arrived is not None and self.world is not None and self.arrived > self.world

    @property
    def joined(self) -> tuple[int, ...]:
        """The ranks that are known to be in init_process_group, or past it."""
        group = self.default_group
        return tuple(sorted({*(group.joined if group else ()), *((0,) if self.rank_0_waits else ())}))

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks that are known not to have joined; empty also where that cannot be told, see ``tells_missing``."""
        if not self.tells_missing or self.world is None:
            return ()
        here = set(self.joined)
        return tuple(rank for rank in range(self.world) if rank not in here)

    @property
    def tells_missing(self) -> bool:
        """Whether the store can tell who is missing.

        Not with NCCL alone, where no rank writes anything, after a restart, or where not all was read.
        """
        if self.state != "read" or self.restarted or self.world is None:
            return False
        group = self.default_group
        if group is not None and group.joined:
            return group.joined[-1] < self.world
        return self.hosted_by == "rank 0" and self.arrived == 1

    def node_of(self, rank: int) -> int | None:
        """The node rank of the agent that starts ``rank``, where the agents wrote so."""
        for agent in self.agents:
            if agent.first_rank is not None and 0 <= rank - agent.first_rank < (agent.ranks or 0):
                return agent.node
        return None

    def host_of(self, rank: int) -> str:
        """The name of the host of ``rank``: as it wrote, or as others of its node did; empty if not known."""
        group = self.default_group
        written = {member.rank: member.host for member in (group.members if group else ()) if member.host}
        if rank in written:
            return written[rank]
        node = self.node_of(rank)
        if node is None:
            return ""
        named = [agent.host for agent in self.agents if agent.node == node and agent.host]
        beside = [host for other, host in written.items() if self.node_of(other) == node]
        return next(iter([*named, *beside]), "")
