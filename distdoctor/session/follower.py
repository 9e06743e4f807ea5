"""A member climbs the stages that node 0 opens: with its ranks, or for the mesh with the node itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from distdoctor.mesh.listener import Listener
from distdoctor.mesh.measurement import Measurement
from distdoctor.model.addresses import is_loopback
from distdoctor.model.facts import BadFacts, StageStatus
from distdoctor.model.report import Report
from distdoctor.model.stages import BARRIER, BY_NAME, COLLECTIVE, GLOO, MESH, NCCL, STORE, TRIAL, Stage
from distdoctor.probes.asker import HURRIED
from distdoctor.ranks.calls import LATE_SECONDS, RankCalls
from distdoctor.ranks.supervisor import Child, Died
from distdoctor.render.words import count
from distdoctor.session.confirm import Unconfirmed, confirm
from distdoctor.session.orders import Orders
from distdoctor.session.post import Post, StorePost, Untrusted
from distdoctor.session.protocol import Command, Event
from distdoctor.session.recorder import Recorder
from distdoctor.session.rendezvous import JoinedStore
from distdoctor.session.roll_call import planned
from distdoctor.store.client import StoreGone


class Follower:
    """Follows the lead's commands until the report is there."""

    def __init__(
        self, member: Recorder, seat: JoinedStore, post: Post, transcript: Callable[[], bytes] | None = None
    ) -> None:
        """``transcript``: on node 0, what its listener confirms."""
        self.member, self.seat, self.post, self.transcript = member, seat, post, transcript
        self.children: list[Child] = []
        self.listener: Listener | None = None
        self.not_listening = ""
        self.abort = asyncio.Event()
        self.store_host = member.facts.plan.master_addr or seat.address
        self._works: dict[Stage, Callable[[Command], Awaitable[tuple[StageStatus, str]]]] = {
            STORE: self._store,
            MESH: self._mesh,
            GLOO: self._gloo,
            NCCL: self._nccl,
            BARRIER: self._barrier,
            COLLECTIVE: self._collective,
        }

    @property
    def number(self) -> int:
        """This process's member number."""
        return self.post.number

    async def follow(self) -> Report | None:
        """Say hello, climb what is opened, and return node 0's report; None if node 0 went away before it.

        Raises StoreGone where the store goes away, Untrusted where others write into it, Unconfirmed, TooLate.
        """
        await self.post.enrol()
        port = None
        if self.member.leads_node or self.transcript is not None:
            listener = Listener(self.seat.marker.token, self.number, self.transcript)
            try:
                port, self.listener = await listener.start(), listener
            except OSError as err:  # no port or descriptor left: the limits in the facts say why
                self.not_listening = f"cannot listen: {err.strerror or err}"
        await self.send(Event("hello", self.member.facts, mesh_port=port))
        orders = self._orders()
        work: asyncio.Task[None] | None = None
        try:
            async for command in self.post.commands():
                try:
                    orders.admit(command)
                except BadFacts as err:
                    raise Untrusted(f"a command to {command.op} {command.stage[:40]}: {err}") from None
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
                    return await self._report(command)
        finally:
            if work is not None and not work.done():
                work.cancel()
        return None

    async def send(self, event: Event) -> None:
        """One message to the lead."""
        self._note_forged()
        await self.post.send(replace(event, facts=self.member.facts) if event.facts is not None else event)

    def close(self) -> None:
        """Let go of the listener and the ranks."""
        if self.listener is not None:
            self.listener.close()
        self._kill(self.children)

    def _note_forged(self) -> None:
        """Put into the facts what was found in the store that nobody of this run wrote."""
        if isinstance(self.post, StorePost) and self.post.forged:
            self.member.update_meeting(forged=tuple(f"{place} {why}" for place, why in self.post.forged.items())[:8])

    def _orders(self) -> Orders:
        network = self.member.facts.network
        own = is_loopback(self.seat.address) or bool(network and network.master_is_own)
        return Orders(self.number, len(self.member.facts.ranks), planned(self.member.options), one_host=own)

    async def _report(self, command: Command) -> Report:
        """Node 0's report, once it is sure whose it is. Raises Untrusted, Unconfirmed and TooLate."""
        report = await self.post.report(command)
        self._note_forged()
        if not isinstance(self.post, StorePost) or self.seat.seal.keyed:
            return report
        answer = "no-answer"
        if command.port is not None:
            answer = await confirm(
                self.seat.address, command.port, self.seat.marker.token, self.post.transcript.digest()
            )
        if answer == "denied":
            raise Untrusted("the commands and the report are not those that node 0 gives when it is asked directly")
        if answer == "no-answer":
            raise Unconfirmed(report)
        return report

    # -- stages -----------------------------------------------------------------------------------------------

    async def _stage(self, command: Command) -> None:
        try:
            if command.stage == TRIAL.name:
                ok, error = await self._trial(command)
            else:
                status = await self.member.run_stage(command.stage, self._work(command), command.seconds + LATE_SECONDS)
                ok, error = status in ("ok", "skipped"), ""
            await self.send(Event("result", self.member.facts, command.stage, command.attempt, ok, error))
        except StoreGone:
            return  # the loop that reads commands sees it, too

    def _work(self, command: Command) -> Awaitable[tuple[StageStatus, str]]:
        return self._works[BY_NAME[command.stage]](command)

    async def _mesh(self, command: Command) -> tuple[StageStatus, str]:
        if self.not_listening:
            return "error", self.not_listening
        if self.listener is None:
            return "skipped", "another process of this node does it"
        facts = await Measurement(self.seat.marker.token, self.number, command.targets, command.lead).run()
        self.member.update(mesh=facts)
        if facts.bad:
            return "failed", f"{count(len(facts.bad), 'link')} {'does' if len(facts.bad) == 1 else 'do'} not work"
        return "ok", count(facts.good, "link")

    async def _store(self, command: Command) -> tuple[StageStatus, str]:
        mine = str(self.number)
        self.member.note_ranks(command.node_ranks.get(mine), command.ranks[mine])
        if self.member.facts.identity.torch is None:
            return "failed", "torch cannot be imported"
        self.children = self._spawn(command, {})
        result = await self._ranks(command, STORE, self.children, self._store_arguments(command, STORE))
        self.member.note_pids(self.children)
        return result

    def _spawn(self, command: Command, env: dict[str, str | None]) -> list[Child]:
        assert self.member.zygote is not None
        labels = command.ranks[str(self.number)]
        if self.member.names_cost_seconds:
            env = {"RES_OPTIONS": HURRIED, **env}
        return [self.member.zygote.spawn(f"distdoctor:r{rank}", env) for rank in labels]

    def _store_arguments(self, command: Command, stage: Stage) -> Callable[[int], dict[str, Any]]:
        ranks = command.group_ranks[str(self.number)]
        return lambda i: {
            "host": self.store_host,
            "port": self.seat.port,
            "prefix": self.post.keys.prefix(stage.name, command.attempt),
            "rank": ranks[i],
            "world": command.world,
            "timeout": command.seconds,
        }

    async def _gloo(self, command: Command) -> tuple[StageStatus, str]:
        prefix = self.post.keys.prefix(GLOO.name)
        return await self._ranks(command, GLOO, self.children, lambda i: {"prefix": prefix, "timeout": command.seconds})

    async def _barrier(self, command: Command) -> tuple[StageStatus, str]:
        return await self._ranks(command, BARRIER, self.children, lambda i: {"timeout": command.seconds})

    async def _collective(self, command: Command) -> tuple[StageStatus, str]:
        ranks = self.member.facts.plan.nproc_per_node or 1
        return await self._ranks(command, COLLECTIVE, self.children, lambda i: {"ranks": ranks})

    async def _nccl(self, command: Command) -> tuple[StageStatus, str]:
        children = self._spawn(command, {})
        arguments = self._store_arguments(command, NCCL)
        try:
            return await self._ranks(
                command,
                NCCL,
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

        def left() -> float:
            return max(0.5, command.seconds - (time.monotonic() - started))

        try:
            children = self._spawn(command, command.env.get(str(self.number), {}))
            for stage, arguments in (
                (STORE, self._store_arguments(command, STORE)),
                (GLOO, lambda i: {"prefix": self.post.keys.prefix(GLOO.name, command.attempt), "timeout": left()}),
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
            self._kill(children)
        return True, ""

    async def _ranks(
        self, command: Command, stage: Stage, children: list[Child], arguments: Callable[[int], dict[str, Any]]
    ) -> tuple[StageStatus, str]:
        """One call in every rank's process, noted in the facts."""

        async def trouble() -> None:
            await self.send(Event("trouble", stage=command.stage, attempt=command.attempt))

        entries = await RankCalls(stage.name, children, command.seconds, self.abort, trouble).run(arguments)
        self.member.note_rank_stages(entries)
        failed = [entry for entry in entries.values() if entry.status != "ok"]
        if failed:
            return "failed", f"{len(failed)} of {count(len(children), 'rank')} failed"
        return "ok", ""

    @staticmethod
    def _kill(children: list[Child]) -> None:
        for child in children:
            child.kill()
            child.close()
        children.clear()
