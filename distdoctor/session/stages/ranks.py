"""Stages that every rank runs, in processes of their own, as node 0 opens them; trials of a fix and searches, too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from distdoctor.knowledge import nccl
from distdoctor.model.facts import RankStage, SmallerGroup
from distdoctor.model.stages import BARRIER, COLLECTIVE, GLOO, NCCL, SEARCH, STORE, Stage
from distdoctor.probes.host.processes import in_time
from distdoctor.probes.network.tcp import SYN_AGAIN, late_connections
from distdoctor.probes.resolver_worker import HURRIED
from distdoctor.ranks.calls import RankCalls
from distdoctor.ranks.supervisor import Child, Died, Zygote
from distdoctor.render.words import count
from distdoctor.session.context import RunContext
from distdoctor.session.leader.stages import first_error, round_robin
from distdoctor.session.protocol.messages import Command, Event, RunKeys
from distdoctor.session.rendezvous.lookup import names_cost_seconds
from distdoctor.session.stages.local import Ended

NCCL_BYTES = 1 << 18
"""Limit of a rank's NCCL log: some hundred lines, more with many channels."""
CONNECTING = (STORE.name, GLOO.name)
"""Stages in which ranks open the connections that a gloo job needs."""
SOCKETS_SECONDS = 1.0
SEARCH_ERROR = 500
"""Characters kept of a smaller group's error."""
Arguments = Callable[[int], dict[str, Any]]
"""Arguments of a call, by the local index of its rank."""


class RankStages:
    """Ranks of this process and their work.

    ``address`` and ``port`` are the store's, ``number`` this participant's; ``send`` sends a message to node 0.
    """

    def __init__(
        self,
        context: RunContext,
        zygote: Zygote,
        address: str,
        port: int,
        keys: RunKeys,
        number: int,
        send: Callable[[Event], Awaitable[None]],
    ) -> None:
        self._context, self._zygote, self._send = context, zygote, send
        self._address, self._port, self._keys, self._number = address, port, keys, number
        self.children: list[Child] = []
        self.abort = asyncio.Event()
        """Set if the running stage has ended elsewhere."""
        self.work: dict[Stage, Callable[[Command], Awaitable[Ended]]] = {
            STORE: self._store,
            GLOO: self._gloo,
            NCCL: self._nccl,
            BARRIER: self._barrier,
            COLLECTIVE: self._collective,
        }
        """Work of each stage. It runs the function of this stage in ``OPS`` of distdoctor/ranks/child.py in each rank's
        process: that of STORE creates the TCPStore."""

    def close(self) -> None:
        """End the ranks."""
        _kill(self.children)

    async def _store(self, command: Command) -> Ended:
        mine = str(self._number)
        self._context.note_ranks(command.node_ranks.get(mine), command.ranks[mine])
        if self._context.facts.identity.torch is None:
            return "failed", "torch cannot be imported"
        self.children = self._spawn(command, {})
        result = await self._call(command, STORE.name, self.children, self._in_store(command, STORE))
        self._context.note_pids(self.children)
        return result

    async def _gloo(self, command: Command) -> Ended:
        prefix = self._keys.prefix(GLOO.name)
        return await self._call(
            command, GLOO.name, self.children, lambda i: {"prefix": prefix, "timeout": command.seconds}
        )

    async def _nccl(self, command: Command) -> Ended:
        children = self._spawn(command, nccl.LOGGED_VARIABLES)
        arguments = self._in_store(command, NCCL)
        try:
            return await self._call(command, NCCL.name, children, lambda i: {**arguments(i), "device": self._device(i)})
        finally:
            self._context.note_nccl([nccl.read_log_settings(child.output_from_start(NCCL_BYTES)) for child in children])
            _kill(children)

    async def _barrier(self, command: Command) -> Ended:
        return await self._call(command, BARRIER.name, self.children, lambda i: {"timeout": command.seconds})

    async def _collective(self, command: Command) -> Ended:
        ranks, backends = self._context.plan.nproc_per_node or 1, self._context.plan.backends(gpus=self._has_gpus)
        began = time.monotonic()
        ended = await self._call(command, COLLECTIVE.name, self.children, lambda i: {"ranks": ranks})
        groups = {"mesh": command.mesh, "order": command.mesh_order, "extra": command.extra}
        if (command.mesh or command.extra) and ended[0] == "ok" and "gloo" in backends:
            left = command.seconds - (time.monotonic() - began)
            ended = await self._call(
                replace(command, seconds=left), "gloo-groups", self.children, lambda i: {**groups, "timeout": left}
            )
        if (command.mesh or command.extra) and ended[0] == "ok" and "nccl" in backends and self._has_gpus:
            left = command.seconds - (time.monotonic() - began)
            children, arguments = self._spawn(command, nccl.QUIET_VARIABLES), self._in_store(command, COLLECTIVE)
            try:
                ended = await self._call(
                    replace(command, seconds=left),
                    "nccl-groups",
                    children,
                    lambda i: {**arguments(i), **groups, "device": self._device(i), "timeout": left},
                )
            finally:
                _kill(children)
        return ended

    @property
    def _has_gpus(self) -> bool:
        return all(rank.gpu is not None and rank.gpu.visible for rank in self._context.facts.ranks)

    async def trial(self, command: Command) -> tuple[bool, str]:
        """Try gloo init and barrier in new processes with the fix's variables. Return whether they passed, and the
        error."""
        started = time.monotonic()
        children: list[Child] = []

        def left() -> float:
            return max(0.5, command.seconds - (time.monotonic() - started))

        prefix = self._keys.prefix(GLOO.name, command.attempt)
        try:
            children = self._spawn(command, command.env.get(str(self._number), {}))
            for stage, arguments in (
                (STORE, self._in_store(command, STORE)),
                (GLOO, lambda i: {"prefix": prefix, "timeout": left()}),
                (BARRIER, lambda i: {"timeout": left()}),
            ):
                calls = [child.call(stage.name, **arguments(i)) for i, child in enumerate(children)]
                answers = await asyncio.wait_for(asyncio.gather(*calls), left())
                failed = [answer for answer in answers if not answer["ok"]]
                if failed:
                    return False, str(failed[0]["error"])[:500]
        except (asyncio.TimeoutError, Died) as err:
            return False, str(err) or f"not through within {command.seconds:g} s"
        finally:
            _kill(children)
        return True, ""

    async def search(self, command: Command) -> tuple[bool, str]:
        """Try NCCL init and a collective in new processes, in this node's group of the round. Return whether they
        passed, and the error."""
        mine = command.groups.get(str(self._number))
        if mine is None:
            return True, ""
        if command.apart:
            return await self._search_own_ranks(command)
        if command.across is not None:
            return await self._search_across(command, command.across)
        world = sum(len(command.group_ranks[number]) for number, group in command.groups.items() if group == mine)
        arguments = self._in_store(command, SEARCH)
        prefix = self._keys.prefix(SEARCH.name, command.attempt)
        entries = await self._make_groups(
            self._spawn(command, {}),
            command.seconds,
            lambda i: {**arguments(i), "prefix": f"{prefix}/{mine}", "world": world, "device": self._device(i)},
        )
        errors = [entry.error or "" for entry in entries.values() if entry.status != "ok"]
        return not errors, errors[0][:SEARCH_ERROR] if errors else ""

    async def _search_own_ranks(self, command: Command) -> tuple[bool, str]:
        """Search this process's own ranks, each alone and in pairs; the result is in the facts."""
        ranks, arguments = command.ranks[str(self._number)], self._in_store(command, SEARCH)
        prefix = f"{self._keys.prefix(SEARCH.name, command.attempt)}/{self._number}"

        async def attempt(groups: Sequence[Places], number: int, seconds: float) -> dict[Places, str]:
            members = [(group, place) for group in groups for place in group]

            def of(i: int) -> dict[str, Any]:
                group, place = members[i]
                return {
                    **arguments(place),
                    "prefix": f"{prefix}/{number}/{group[0]}",
                    "rank": group.index(place),
                    "world": len(group),
                    "device": self._device(place),
                    "timeout": seconds,
                }

            children = self._spawn_ranks([ranks[place] for _, place in members], {})
            entries = await self._make_groups(children, seconds, of)
            failed: dict[Places, list[str]] = {group: [] for group in groups}
            for i, entry in entries.items():
                if entry.status != "ok":
                    failed[members[i][0]].append((entry.error or "no text")[:SEARCH_ERROR])
            return {group: first_error(errors) for group, errors in failed.items()}

        errors = await search_devices(len(ranks), command.seconds, attempt)
        key = self._context.facts.key
        self._context.update(
            groups=tuple(
                SmallerGroup((key,), not error, error, tuple(ranks[place] for place in group))
                for group, error in errors.items()
            )
        )
        return not any(errors.values()), ""

    async def _search_across(self, command: Command, shift: int) -> tuple[bool, str]:
        """Try NCCL groups of two ranks, one of this process and one of another's; the result is in the facts."""
        mine = str(self._number)
        first, second = (n for n, group in command.groups.items() if group == command.groups[mine])
        pairs = across(command.ranks[first], command.ranks[second], shift)
        own, arguments = command.ranks[mine], self._in_store(command, SEARCH)
        prefix = f"{self._keys.prefix(SEARCH.name, command.attempt)}/{command.groups[mine]}"

        def of(i: int) -> dict[str, Any]:
            rank = pairs[i][mine == second]
            timeout = command.seconds / 2
            group = {"prefix": f"{prefix}/{i}", "rank": int(mine == second), "world": 2, "timeout": timeout}
            return {**arguments(0), **group, "device": self._device(own.index(rank))}

        children = self._spawn_ranks([pair[mine == second] for pair in pairs], {})
        entries = await self._make_groups(children, command.seconds / 2, of)
        errors = ["" if entries[i].status == "ok" else (entries[i].error or "no text") for i in range(len(pairs))]
        tried = (
            SmallerGroup((self._context.facts.key,), not error, error[:SEARCH_ERROR], pair)
            for pair, error in zip(pairs, errors, strict=True)
        )
        self._context.update(groups=(*self._context.facts.groups, *tried))
        return not any(errors), ""

    async def _make_groups(self, children: list[Child], seconds: float, arguments: Arguments) -> dict[int, RankStage]:
        """Create NCCL groups of these processes, which are ended after it."""
        try:
            return await RankCalls(NCCL.name, children, seconds, asyncio.Event(), _ignore_trouble).run(arguments)
        finally:
            _kill(children)

    def _spawn(self, command: Command, env: Mapping[str, str | None]) -> list[Child]:
        return self._spawn_ranks(command.ranks[str(self._number)], env)

    def _spawn_ranks(self, ranks: Iterable[int], env: Mapping[str, str | None]) -> list[Child]:
        if names_cost_seconds(self._context.facts):
            env = {"RES_OPTIONS": HURRIED, **env}
        return [self._zygote.spawn(f"distdoctor:r{rank}", env) for rank in ranks]

    def _in_store(self, command: Command, stage: Stage) -> Arguments:
        """Return the arguments of each rank for the store of this run, below that stage's prefix."""
        ranks = command.group_ranks[str(self._number)]
        return lambda i: {
            "host": self._address,
            "port": self._port,
            "prefix": self._keys.prefix(stage.name, command.attempt),
            "rank": ranks[i],
            "world": command.world,
            "timeout": command.seconds,
        }

    def _device(self, place: int) -> int:
        """Return the device a script would take: its LOCAL_RANK, or the only one if the launcher gave each rank one."""
        rank = self._context.facts.ranks[place]
        visible = len(rank.gpu.visible) if rank.gpu else 1
        return rank.local_rank if rank.local_rank < visible else rank.local_rank % max(visible, 1)

    async def _call(self, command: Command, op: str, children: list[Child], arguments: Arguments) -> Ended:
        """Make one call in every rank's process, and note the results in the facts."""

        async def trouble() -> None:
            await self._send(Event("trouble", stage=command.stage, attempt=command.attempt))

        network = self._context.facts.network
        own = network.own_port if network is not None else None
        deaf = own.address if own is not None and own.outcome == "no-answer" else None
        calls = RankCalls(op, children, command.seconds, self.abort, trouble, deaf, command.limited)
        entries = await calls.run(arguments)
        self._context.note_rank_stages(entries)
        if op in CONNECTING and any(entry.seconds >= SYN_AGAIN for entry in entries.values()):
            pids = [child.pid for child in children if child.pid is not None]
            if late := await in_time(lambda: late_connections(pids), SOCKETS_SECONDS):
                self._context.update_network(late_connections=late)
        failed = [entry for entry in entries.values() if entry.status != "ok"]
        if failed:
            starved = max(float(entry.detail.get("starved", 0)) for entry in failed)
            why = f": one was kept waiting for {starved:.0f} s of {command.seconds:.0f} s" if starved else ""
            return "failed", f"{len(failed)} of {count(len(children), 'rank')} failed{why}"
        return "ok", ""


async def _ignore_trouble() -> None:
    """Ignore the trouble of one rank that does not concern the groups of others."""


def _kill(children: list[Child]) -> None:
    for child in children:
        child.kill()
        child.close()
    children.clear()


# NCCL groups of one process's own ranks: each alone, and if all pass, pairs of them, side by side.


Places = tuple[int, ...]
"""Ranks of a group, by their local index."""
ROUND_SECONDS = 10.0
LEAST_SECONDS = 2.0
"""Least seconds left to begin a further round."""

Try = Callable[[Sequence[Places], int, float], Awaitable[dict[Places, str]]]
"""Creates the groups of a round (its number, its seconds), and returns each one's error; empty if it passed."""


async def search_devices(ranks: int, seconds: float, attempt: Try) -> dict[Places, str]:
    """Return the groups that were tried within ``seconds``, and each one's error."""
    end = time.monotonic() + seconds
    by_places: dict[Places, str] = {}
    for number, groups in enumerate(search_rounds(ranks)):
        left = end - time.monotonic()
        if left < LEAST_SECONDS or settled(by_places):
            break
        by_places.update(await attempt(groups, number, min(ROUND_SECONDS, left)))
    return by_places


def search_rounds(ranks: int) -> Iterator[list[Places]]:
    """Yield each alone; then pairs, each rank in one of a round. Two ranks are no pair: their group is the one that
    failed."""
    yield [(place,) for place in range(ranks)]
    if ranks > 2:
        yield from (list[Places](pairs) for pairs in round_robin(range(ranks)))


def settled(by_places: dict[Places, str]) -> bool:
    """Return whether a further round would add nothing: a rank fails alone, or one fails in two pairs, is in all that
    fail, and passes in none."""
    failed = [group for group, error in by_places.items() if error]
    if any(len(group) == 1 for group in failed):
        return True
    common = set.intersection(*map(set, failed)) if len(failed) > 1 else set()
    passed = {place for group, error in by_places.items() if not error and len(group) == 2 for place in group}
    return len(common - passed) == 1


def across(first: Sequence[int], second: Sequence[int], shift: int) -> list[tuple[int, int]]:
    """Return pairs of one rank of each node: those of equal index, or ``shift`` higher."""
    count = min(len(first), len(second))
    return [(first[place], second[(place + shift) % count]) for place in range(count)]
