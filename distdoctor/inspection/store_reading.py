"""One reading of a job's store: which keys are there, which values are read, and what they make together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timezone

from distdoctor.inspection import rendezvous_state, store_values
from distdoctor.inspection.store_keys import (
    CLIENTS,
    STATE,
    GroupKeys,
    Keys,
    foreseen_agents,
    foreseen_communicators,
    foreseen_ranks,
)
from distdoctor.model.facts import AgentView, GroupView, Member, RendezvousView, StoreView
from distdoctor.model.facts.job_store import MAX_TOLD
from distdoctor.model.sanitize import fit
from distdoctor.store.client import Oversize
from distdoctor.store.read_only import OLD, ReadOnlyStore

_SMALL = 4096
_MAX_BLOB = 8 * 1024 * 1024
_MAX_BLOBS = 32 * 1024 * 1024
"""Bytes of all the addresses together; one has eight for each rank."""
_FORESEEN_RANKS = 256
_FORESEEN_NODES = 64
_FORESEEN_GROUPS = 8
_FORESEEN_ATTEMPTS = 4
_MAX_RENDEZVOUS = 8
_MAX_ROUNDS = 64
_CHUNK = 5000


class Reading:
    """What was read so far; ``view()`` may be asked for at any time."""

    def __init__(self, found: StoreView, run_id: str) -> None:
        self.found = found
        self._run_id = run_id
        self._keys = Keys()
        self._values: dict[bytes, bytes] = {}
        self._members: dict[bytes, Member] = {}
        self._rendezvous: list[RendezvousView] = []
        self._problems: list[str] = []

    def problem(self, text: str) -> None:
        """Something was not read."""
        self._problems.append(fit(text))

    async def read(self, store: ReadOnlyStore) -> None:
        """All there is to read. Raises StoreError where the store stops answering."""
        old = self.found.generation == OLD
        names = await self._listed(store)
        # After the list, which breaks the connection of a server that does not know it.
        self.found = replace(self.found, keys=await store.count(), complete_list=names is not None)
        if self.found.generation == "2.5+":
            self.found = replace(self.found, generation="2.10+" if names is not None else "2.5-2.9")
        if names is None:
            await self._foresee(store, old)
        else:
            for start in range(0, len(names), _CHUNK):
                self._keys.add(names[start : start + _CHUNK])
                await asyncio.sleep(0)
        await self._small_values(store)
        await self._read_rendezvous(store)
        await self._addresses(store)
        self.found = replace(self.found, state="read")

    async def _listed(self, store: ReadOnlyStore) -> list[bytes] | None:
        try:
            return await store.keys()
        except Oversize as err:
            self.problem(str(err))
            return None

    async def _foresee(self, store: ReadOnlyStore, old: bool) -> None:
        """Ask for the keys whose names can be known."""
        run = self._run_id
        await self._ask(store, [CLIENTS, f"{STATE}{run}".encode(), *foreseen_agents(run, _FORESEEN_NODES)])
        group = "default_pg/0"
        attempts = (None, *range(_FORESEEN_ATTEMPTS)) if self._keys.roles or run != "none" or old else (None, 0)
        for attempt in attempts:
            await self._ask(store, foreseen_communicators(group, attempt))
            known = self.found.expected_world or _FORESEEN_RANKS
            here = await self._ask(store, foreseen_ranks(group, attempt, range(known), old))
            if here and not self.found.expected_world:
                await self._addresses(store)
                world = max((one.world or 0 for one in self._members.values()), default=0)
                if _FORESEEN_RANKS < world <= store_values.MAX_WORLD:
                    await self._ask(store, foreseen_ranks(group, attempt, range(_FORESEEN_RANKS, world), old))
            if here:
                for number in range(1, _FORESEEN_GROUPS):
                    ranks = range(min(known, _FORESEEN_RANKS))
                    if not await self._ask(store, foreseen_ranks(f"{group}//{number}", attempt, ranks, old)):
                        break

    async def _ask(self, store: ReadOnlyStore, names: Iterable[bytes]) -> bool:
        wanted = [name for name in names if len(name) <= 512]
        here = [name for name, there in zip(wanted, await store.has(wanted), strict=True) if there]
        self._keys.add(here)
        return bool(here)

    async def _small_values(self, store: ReadOnlyStore) -> None:
        keys = self._keys
        tables = [*keys.roles.values(), *keys.shares.values(), keys.debug]
        wanted = [CLIENTS] if keys.clients else []
        wanted += [key for table in tables for _, key in sorted(table.items())[:MAX_TOLD]]
        wanted += [*list(keys.barriers.values())[:MAX_TOLD], *keys.leaving[:MAX_TOLD]]
        self._values.update(await store.values(wanted, _SMALL))

    async def _read_rendezvous(self, store: ReadOnlyStore) -> None:
        states = dict(list(self._keys.states.items())[:_MAX_RENDEZVOUS])
        values = await store.values(list(states.values()), rendezvous_state.MAX_VALUE)
        for run, key in states.items():
            if key not in values:
                self._rendezvous.append(RendezvousView(fit(run), problem="it is too large"))
                continue
            state = rendezvous_state.decode(fit(run), values[key], datetime.now(timezone.utc))
            rounds = self._keys.masters.get(run, set())
            if not self.found.complete_list and state.round is not None:
                rounds = set(range(max(0, state.round - _MAX_ROUNDS), state.round + 1))
            newest = sorted(rounds, reverse=True)[:_MAX_ROUNDS]
            self._rendezvous.append(replace(state, master=await self._master(store, run, newest)))
            if not self.found.complete_list and newest:
                prefixes = [f"torch.rendezvous.{run}.{number}" for number in newest[:4]]
                nodes = max(1, len(state.agents))
                await self._ask(store, (key for name in prefixes for key in foreseen_agents(name, nodes)))
                await self._small_values(store)

    async def _master(self, store: ReadOnlyStore, run: str, rounds: list[int]) -> str:
        """``host:port`` of the newest round that has one: torch 2.6 and later write it in the first only."""
        for number in rounds:
            prefix = f"{STATE}{run}.{number}/MASTER_".encode("utf-8", "surrogateescape")
            told = await store.values([prefix + b"ADDR", prefix + b"PORT"], _SMALL)
            if len(told) == 2:
                address = store_values.host_and_port(told[prefix + b"ADDR"], told[prefix + b"PORT"])
                return f"{address[0]}:{address[1]}" if address else ""
        return ""

    async def _addresses(self, store: ReadOnlyStore) -> None:
        """What ranks wrote of themselves, the default group's first; the largest jobs' only in part."""
        budget = _MAX_BLOBS
        for group in sorted(self._keys.groups.values(), key=lambda one: (one.path.count("//"), one.path)):
            wanted = [(rank, key) for rank, key in sorted(group.addresses.items()) if key not in self._members]
            wanted, size = wanted[:MAX_TOLD], 256
            hosts = await store.values([key for _, key in sorted(group.hosts.items())[:MAX_TOLD]], _SMALL)
            while wanted and budget > 0:
                part, wanted = wanted[: max(1, 65536 // size)], wanted[max(1, 65536 // size) :]
                values = await store.values([key for _, key in part], _MAX_BLOB)
                for rank, key in part:
                    host = hosts.get(group.hosts.get(rank, b""), b"")
                    self._members[key] = store_values.member(rank, values.get(key, b""), host)
                total = sum(map(len, values.values()))
                budget, size = budget - total, max(256, total // max(1, len(values)))
            for rank, key in group.hosts.items():
                if rank not in group.addresses and key in hosts:
                    self._members[key] = Member(rank, fit(hosts[key].decode("utf-8", "backslashreplace")))

    def view(self) -> StoreView:
        """All that was read."""
        keys, values = self._keys, self._values
        agents = self._agents()
        hosted_by = self.found.hosted_by or ("agent" if agents and not self._rendezvous else "")
        groups = (self._group(group) for group in keys.groups.values())
        return replace(
            self.found,
            clients=store_values.counted(values.get(CLIENTS, b"")),
            agents=agents,
            hosted_by=hosted_by,
            groups=tuple(group for group in groups if group.joined or group.communicators or group.timed_out),
            rendezvous=tuple(self._rendezvous),
            barriers={
                fit(name): number
                for name, key in list(keys.barriers.items())[:MAX_TOLD]
                if (number := store_values.counted(values.get(key, b""))) is not None
            },
            debug_servers={
                rank: told
                for rank, key in sorted(keys.debug.items())
                if (told := store_values.url(values.get(key, b"")))
            },
            leaving=max((store_values.counted(values.get(key, b"")) or 0 for key in keys.leaving), default=0),
            problems=tuple(dict.fromkeys(self._problems)),
        )

    def _group(self, group: GroupKeys) -> GroupView:
        joined = sorted({*group.addresses, *group.hosts})
        keys = (group.addresses.get(rank, group.hosts.get(rank, b"")) for rank in joined)
        members = tuple(self._members[key] for key in keys if key in self._members)
        path = fit(group.path)
        accelerated = group.device != "cpu"
        return GroupView(
            path,
            fit(group.device),
            tuple(joined),
            members[:MAX_TOLD],
            communicators=group.communicators if accelerated else 0,
            timed_out=accelerated and group.timed_out,
            attempt=group.attempt,
        )

    def _agents(self) -> tuple[AgentView, ...]:
        """Of the newest prefix under which agents share out ranks: the last round of a rendezvous, or the run's."""
        keys, values = self._keys, self._values
        if not keys.roles:
            return ()
        run = max(keys.roles, key=_round)
        roles, shares = keys.roles[run], keys.shares.get(run, {})
        hosts = {agent.node: agent for one in self._rendezvous for agent in one.agents if agent.node is not None}
        found = []
        for node, key in sorted(roles.items())[:MAX_TOLD]:
            first, world = store_values.share(values.get(shares.get(node, b""), b""))
            known = hosts.get(node, AgentView())
            ranks = store_values.role(values.get(key, b""))
            found.append(replace(known, node=node, ranks=ranks, first_rank=first, world=world))
        return tuple(found) if shares else tuple(_shared_out(found))


def _shared_out(agents: Iterable[AgentView]) -> Iterator[AgentView]:
    """With the ranks that each gets as soon as all have come: up to torch 2.3 each agent counts for itself how many
    those before it start, and writes nothing down (torch/distributed/elastic/agent/server/api.py: ``_get_ranks``)."""
    first: int | None = 0
    for number, one in enumerate(agents):
        first = first if one.node == number else None
        yield replace(one, first_rank=first)
        first = first + one.ranks if first is not None and one.ranks is not None else None


def _round(prefix: str) -> int:
    number = prefix.rpartition(".")[2]
    return int(number) if prefix.startswith(STATE[1:]) and number.isdecimal() else -1
