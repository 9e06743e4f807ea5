"""The follower: climbs the stages that node 0 opens, in every process, and brings back node 0's report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

from distdoctor.model.addresses import is_loopback
from distdoctor.model.facts import BadFacts
from distdoctor.model.report import Report
from distdoctor.model.stages import BY_NAME, MESH, SEARCH, TRIAL, Stage
from distdoctor.probes import ipsec
from distdoctor.probes.neighbours import answered, unanswered
from distdoctor.ranks.calls import LATE_SECONDS
from distdoctor.ranks.supervisor import Zygote
from distdoctor.session.confirm import Unconfirmed, confirm, proven
from distdoctor.session.kernel_lines import look_again
from distdoctor.session.local_stages import Ended, look_for_files
from distdoctor.session.mesh_stage import MeshStage
from distdoctor.session.orders import Orders
from distdoctor.session.post import Post, StorePost, Untrusted
from distdoctor.session.protocol import Command, Event
from distdoctor.session.rank_stages import RankStages
from distdoctor.session.recorder import Recorder
from distdoctor.session.rendezvous import JoinedStore
from distdoctor.session.roll_call import planned
from distdoctor.store.client import StoreError, StoreGone


class Follower:
    """Follows the leader's commands until the report is there."""

    def __init__(
        self,
        recorder: Recorder,
        zygote: Zygote,
        store: JoinedStore,
        post: Post,
        transcript: Callable[[], bytes] | None = None,
    ) -> None:
        """``transcript``: on node 0, what its listener confirms."""
        self._recorder, self._zygote, self._store, self._post = recorder, zygote, store, post
        self._transcript = transcript
        self._ranks: RankStages | None = None
        self._mesh: MeshStage | None = None
        self._due: float | None = None
        """When node 0's orders so far have had their time, of the monotonic clock; None: none came, or all have."""
        self._together: dict[str, int] = {}
        """Stage -> how many processes ran it together."""
        self.begun_without: int | None = None
        """How many processes take part in what node 0 opens, as long as this one took part in nothing; else None."""

    async def enrol(self) -> None:
        """Let node 0 know that this process is on its way, before it can say hello. What goes wrong here goes wrong in
        ``follow`` again."""
        with suppress(StoreError, Untrusted):
            await self._post.enrol()

    async def follow(self) -> Report | None:
        """Say hello, climb what is opened, and return node 0's report; None if node 0 went away before it.

        Raises StoreGone where the store goes away, Untrusted where others write into it, Unconfirmed, TooLate.
        """
        await self._post.enrol()
        number, token = self._post.number, self._store.marker.token
        self._mesh = mesh = MeshStage(self._recorder, token, number)
        address = self._recorder.facts.plan.master_addr or self._store.address
        self._ranks = ranks = RankStages(
            self._recorder, self._zygote, address, self._store.port, self._post.keys, number, self.tell
        )
        port = None
        if self._recorder.leads_node or self._transcript is not None:
            port = await mesh.listen(self._transcript)
        await self.tell(Event("hello", self._recorder.facts, mesh_port=port))
        stages: dict[Stage, Callable[[Command], Awaitable[Ended]]] = {**ranks.work, MESH: mesh.climb}
        trials = {TRIAL: ranks.trial, SEARCH: ranks.search}
        orders = self._orders()
        work: asyncio.Task[None] | None = None
        try:
            async for command in self._post.commands():
                try:
                    orders.admit(command)
                except BadFacts as err:
                    raise Untrusted(f"a command to {command.op} {command.stage[:40]}: {err}") from None
                if self._transcript is not None and work is None:
                    if silent := unanswered():
                        self._recorder.update_network(hardware_addresses=answered(), unanswered=silent)
                    self._recorder.update_network(ipsec=ipsec.policies())
                self._due = max(self._due or 0.0, time.monotonic() + command.seconds)
                if command.op == "abort":
                    ranks.abort.set()
                elif command.op == "skip":
                    self._recorder.skip(command.stage, command.reason, command.blocked_by)
                elif command.op == "stage" and str(number) not in command.ranks:
                    if work is None:
                        self.begun_without = len(command.ranks)
                    self._recorder.skip(command.stage, "the others had begun without this node")
                elif command.op == "stage":
                    self._together[command.stage] = len(command.ranks)
                    if work is not None:
                        await work
                    ranks.abort = asyncio.Event()
                    stage = BY_NAME[command.stage]
                    work = asyncio.create_task(
                        self._climb(command, stages[stage]) if stage in stages else self._try(command, trials[stage])
                    )
                else:
                    self._due = None
                    if work is not None:
                        work.cancel()  # what is not over by now is not in the report
                        await asyncio.wait([work])
                    return await self._report(command)
        finally:
            if work is not None and not work.done():
                work.cancel()
        return None

    async def tell(self, event: Event) -> None:
        """One message to the leader, with the facts as they are now where it brings facts."""
        self._note_forged()
        await self._post.send(replace(event, facts=self._recorder.facts) if event.facts is not None else event)

    async def unled(self) -> float:
        """For how many seconds node 0 has given no order, beyond the time of those that it gave, while its store
        answers; 0.0 where it has. Raises StoreError.
        """
        if self._due is None or await self._post.ordered():
            return 0.0
        return max(0.0, time.monotonic() - self._due)

    @property
    def enrolled(self) -> bool:
        """Whether this process has a number, under which it may tell something."""
        return self._ranks is not None

    def close(self) -> None:
        """Let go of the listener and the ranks."""
        if self._mesh is not None:
            self._mesh.close()
        if self._ranks is not None:
            self._ranks.close()

    def _note_forged(self) -> None:
        if isinstance(self._post, StorePost):
            self._recorder.note_forged(*(f"{place} {why}" for place, why in self._post.forged.items()))

    def _orders(self) -> Orders:
        facts, options = self._recorder.facts, self._recorder.options
        one_host = is_loopback(self._store.address) or bool(facts.network and facts.network.master_is_own)
        return Orders(self._post.number, len(facts.ranks), planned(options), one_host=one_host)

    async def _climb(self, command: Command, climb: Callable[[Command], Awaitable[Ended]]) -> None:
        """One stage, and how it ended here."""
        most = command.seconds + LATE_SECONDS
        status, _ = await asyncio.gather(
            self._recorder.run_stage(command.stage, climb(command), most),
            _where_possible(look_for_files(self._recorder, command.marks)),
        )
        if status not in ("ok", "skipped"):
            await _where_possible(look_again(self._recorder))
        await self._tell_result(command, status in ("ok", "skipped"), "")

    async def _try(self, command: Command, trial: Callable[[Command], Awaitable[tuple[bool, str]]]) -> None:
        """What is no rung of the ladder: whether it passed here, else why not."""
        observer, what = self._recorder.observer, BY_NAME[command.stage].spoken
        observer.waits(what, command.seconds)
        passed, error = await trial(command)
        observer.waited(what)
        await self._tell_result(command, passed, error)

    async def _tell_result(self, command: Command, ok: bool, error: str) -> None:
        try:
            await self.tell(Event("result", self._recorder.facts, command.stage, command.attempt, ok, error))
        except StoreGone:
            return  # the loop that reads commands sees it, too

    async def _report(self, command: Command) -> Report:
        """Node 0's report, once it is sure whose it is. Raises Untrusted, Unconfirmed and TooLate."""
        report = await self._post.report(command)
        self._recorder.update_meeting(verdict=report.verdict)
        self._note_forged()
        if not isinstance(self._post, StorePost) or self._store.seal.keyed:
            return report
        answer = "no-answer"
        if command.port is not None:
            told = self._post.transcript.digest()
            answer = await confirm(self._store.address, command.port, self._store.marker.token, told)
        if answer == "denied":
            raise Untrusted("the commands and the report are not those that node 0 gives when it is asked directly")
        if answer == "no-answer":
            raise Unconfirmed(report, proven(self._recorder, self._together))
        return report


async def _where_possible(look: Awaitable[None]) -> None:
    """A look beside a stage. Where no thread or process is left for it, node 0 is told all the same how that ended."""
    with suppress(OSError, RuntimeError):
        await look
