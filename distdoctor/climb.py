"""A member climbs the stages that node 0 opens: with its ranks, or for the mesh with the node itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from distdoctor.facts import BadFacts, StageStatus, decode, encode
from distdoctor.links import Climb
from distdoctor.meeting import Seat
from distdoctor.member import Member
from distdoctor.mesh import Listener
from distdoctor.probes.asker import HURRIED
from distdoctor.processes import Child, Died
from distdoctor.protocol import Command, Event
from distdoctor.rank_calls import RankCalls
from distdoctor.report import Report
from distdoctor.store_client import StoreGone

BEAT_SECONDS = 1.0
"""How often a member shows node 0 that it is still there."""


class Climber:
    """Follows the lead's commands until the report is there."""

    def __init__(self, member: Member, seat: Seat) -> None:
        self.member, self.seat = member, seat
        self.number = 0
        self.sequence = 0
        self.children: list[Child] = []
        self.listener: Listener | None = None
        self.not_listening = ""
        self.abort = asyncio.Event()
        self.store_host = member.facts.plan.master_addr or seat.address

    def key(self, rest: str) -> str:
        """A key of this run."""
        return f"distdoctor/{self.seat.marker.run}/{rest}"

    async def follow(self) -> Report | None:
        """Say hello, climb what is opened, and return node 0's report; None if node 0 went away before it.

        Raises StoreGone where the store goes away.
        """
        self.number = await self.seat.client.add(self.key("members"), 1)
        port = None
        if self.member.leads_node:
            listener = Listener(self.seat.marker.token, self.number)
            try:
                port, self.listener = await listener.start(), listener
            except OSError as err:  # no port or descriptor left: the limits in the facts say why
                self.not_listening = f"cannot listen: {err.strerror or err}"
        await self.send(Event("hello", self.member.facts, mesh_port=port))
        work: asyncio.Task[None] | None = None
        try:
            async for command in self._commands():
                if command.op == "abort":
                    self.abort.set()
                elif command.op == "skip":
                    self.member.skip(command.stage, command.reason, command.blocked_by)
                elif command.op == "stage" and str(self.number) not in command.ranks:
                    self.member.skip(command.stage, "the others had begun without this node")
                elif command.op == "stage":
                    if work is not None:
                        await work
                    self.abort = asyncio.Event()
                    work = asyncio.create_task(self._stage(command))
                else:
                    if work is not None:
                        work.cancel()  # what is not over by now is not in the report
                        await asyncio.wait([work])
                    return await self._report(command.parts)
        finally:
            if work is not None and not work.done():
                work.cancel()
        return None

    async def send(self, event: Event) -> None:
        """One message to the lead."""
        place, self.sequence = self.sequence, self.sequence + 1  # before: what is begun is carried out
        await self.seat.client.set(self.key(f"m/{self.number}/{place}"), encode(event))
        await self.seat.client.add(self.key("tick"), 1)

    def close(self) -> None:
        """Let go of the listener and the ranks."""
        if self.listener is not None:
            self.listener.close()
        self._kill(self.children)

    async def _commands(self) -> AsyncIterator[Command]:
        sequence, pause, beaten = 0, 0.01, 0.0
        while True:
            if time.monotonic() - beaten > BEAT_SECONDS:
                beaten = time.monotonic()
                await self.seat.client.add(self.key(f"beat/{self.number}"), 1)
            value = await self.seat.client.get(self.key(f"c/{sequence}"))
            if value is None:
                await asyncio.sleep(pause)
                pause = min(pause * 1.2, 0.1)
                continue
            sequence, pause = sequence + 1, 0.01
            try:
                yield decode(value, Command)
            except BadFacts as err:
                raise StoreGone(f"node 0 sent what this version does not understand: {err}") from None

    async def _report(self, parts: int) -> Report:
        values = [await self.seat.client.get(self.key(f"report/{part}")) for part in range(parts)]
        try:
            return decode(b"".join(value or b"" for value in values), Report)
        except BadFacts as err:
            raise StoreGone(f"node 0's report cannot be read: {err}") from None

    # -- stages -----------------------------------------------------------------------------------------------

    async def _stage(self, command: Command) -> None:
        try:
            if command.stage == "trial":
                ok, error = await self._trial(command)
            else:
                status = await self.member.run_stage(command.stage, self._work(command))
                ok, error = status in ("ok", "skipped"), ""
            await self.send(Event("result", self.member.facts, command.stage, command.attempt, ok, error))
        except StoreGone:
            return  # the loop that reads commands sees it, too

    def _work(self, command: Command) -> Awaitable[tuple[StageStatus, str]]:
        if command.stage == "mesh":
            return self._mesh(command)
        if command.stage == "store":
            return self._store(command)
        if command.stage == "gloo":
            return self._ranks(
                command, "gloo", self.children, lambda i: {"prefix": self.key("gloo/0"), "timeout": command.seconds}
            )
        if command.stage == "barrier":
            return self._ranks(command, "barrier", self.children, lambda i: {"timeout": command.seconds})
        if command.stage == "collective":
            ranks = self.member.facts.plan.nproc_per_node or 1
            return self._ranks(command, "collective", self.children, lambda i: {"ranks": ranks})
        return self._nccl(command)

    async def _mesh(self, command: Command) -> tuple[StageStatus, str]:
        if self.not_listening:
            return "error", self.not_listening
        if self.listener is None:
            return "skipped", "another process of this node does it"
        facts = await Climb(self.seat.marker.token, self.number, command.targets, command.lead).run()
        self.member.update(mesh=facts)
        return ("failed", f"{len(facts.bad)} links do not work") if facts.bad else ("ok", f"{facts.good} links")

    async def _store(self, command: Command) -> tuple[StageStatus, str]:
        mine = str(self.number)
        self.member.note_ranks(command.node_ranks.get(mine), command.ranks[mine])
        self.children = self._spawn(command, {})
        result = await self._ranks(command, "store", self.children, self._store_arguments(command, "store/0"))
        self.member.note_pids(self.children)
        return result

    def _spawn(self, command: Command, env: dict[str, str | None]) -> list[Child]:
        assert self.member.zygote is not None
        labels = command.ranks[str(self.number)]
        if self.member.names_cost_seconds:
            env = {"RES_OPTIONS": HURRIED, **env}
        return [self.member.zygote.spawn(f"distdoctor:r{rank}", env) for rank in labels]

    def _store_arguments(self, command: Command, prefix: str) -> Callable[[int], dict[str, Any]]:
        ranks = command.group_ranks[str(self.number)]
        return lambda i: {
            "host": self.store_host,
            "port": self.seat.port,
            "prefix": self.key(prefix),
            "rank": ranks[i],
            "world": command.world,
            "timeout": command.seconds,
        }

    async def _nccl(self, command: Command) -> tuple[StageStatus, str]:
        children = self._spawn(command, {})
        arguments = self._store_arguments(command, "nccl/0")
        try:
            return await self._ranks(
                command,
                "nccl",
                children,
                lambda i: {**arguments(i), "device": self._device(i)},
            )
        finally:
            self._kill(children)

    def _device(self, place: int) -> int:
        """The device a script would take: its LOCAL_RANK, or the only one where the launcher gave each rank one."""
        rank = self.member.facts.ranks[place]
        visible = len(rank.gpu.visible) if rank.gpu else 1
        return rank.local_rank if rank.local_rank < visible else rank.local_rank % max(visible, 1)

    async def _trial(self, command: Command) -> tuple[bool, str]:
        """gloo init and barrier in new processes with the fix's variables. Whether they passed; else why not."""
        started = time.monotonic()
        children: list[Child] = []
        attempt = command.attempt

        def left() -> float:
            return max(0.5, command.seconds - (time.monotonic() - started))

        try:
            children = self._spawn(command, command.env.get(str(self.number), {}))
            for op, arguments in (
                ("store", self._store_arguments(command, f"store/{attempt}")),
                ("gloo", lambda i: {"prefix": self.key(f"gloo/{attempt}"), "timeout": left()}),
                ("barrier", lambda i: {"timeout": left()}),
            ):
                calls = [child.call(op, **arguments(i)) for i, child in enumerate(children)]
                answers = await asyncio.wait_for(asyncio.gather(*calls), left())
                failed = [answer for answer in answers if not answer["ok"]]
                if failed:
                    return False, str(failed[0]["error"])[:500]
        except (asyncio.TimeoutError, Died) as err:
            return False, str(err) or f"not through within {command.seconds:g} s"
        finally:
            self._kill(children)
        return True, ""

    async def _ranks(
        self, command: Command, op: str, children: list[Child], arguments: Callable[[int], dict[str, Any]]
    ) -> tuple[StageStatus, str]:
        """One call in every rank's process, noted in the facts."""

        async def trouble() -> None:
            await self.send(Event("trouble", stage=command.stage, attempt=command.attempt))

        entries = await RankCalls(op, children, command.seconds, self.abort, trouble).run(arguments)
        self.member.note_rank_stages(entries)
        failed = [entry for entry in entries.values() if entry.status != "ok"]
        if failed:
            return "failed", f"{len(failed)} of {len(children)} ranks failed"
        return "ok", ""

    @staticmethod
    def _kill(children: list[Child]) -> None:
        for child in children:
            child.kill()
            child.close()
        children.clear()
