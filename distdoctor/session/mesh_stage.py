"""The mesh stage: one process of each node listens for the others, and measures its links to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

from distdoctor.mesh.listener import Listener
from distdoctor.mesh.measurement import Measurement
from distdoctor.mesh.target import Target, addresses_of
from distdoctor.model.addresses import is_loopback
from distdoctor.probes import names
from distdoctor.probes.neighbour_room import filled_since, refused
from distdoctor.probes.neighbours import answered, unanswered
from distdoctor.render.words import count
from distdoctor.session.local_stages import ANOTHER_PROCESS, Ended
from distdoctor.session.participant import Participant
from distdoctor.session.protocol import Command
from distdoctor.session.recorder import Recorder


class MeshStage:
    """This process's part of it. ``number`` is this participant's, ``token`` what listeners ask for."""

    def __init__(self, recorder: Recorder, token: str, number: int) -> None:
        self._recorder, self._token, self._number = recorder, token, number
        self._listener: Listener | None = None
        self._not_listening = ""

    async def listen(self, transcript: Callable[[], bytes] | None) -> int | None:
        """The port this process listens on, None where it cannot. ``transcript``: on node 0, what it confirms."""
        listener = Listener(self._token, self._number, transcript)
        try:
            port, self._listener = await listener.start(), listener
        except OSError as err:  # no port or descriptor left: the limits in the facts say why
            self._not_listening = f"cannot listen: {err.strerror or err}"
            return None
        return port

    async def climb(self, command: Command) -> Ended:
        """Measure the links to all of the command's targets."""
        if self._not_listening:
            return "error", self._not_listening
        if self._listener is None:
            return "skipped", ANOTHER_PROCESS
        room = refused()
        name = asyncio.ensure_future(names.resolve(command.announced)) if command.announced else None
        facts = await Measurement(self._token, self._number, command.targets, command.lead).run()
        if name is not None:
            self._recorder.update_network(rendezvous_name=await name)
        self._recorder.update(mesh=facts)
        if facts.bad:
            self._recorder.update_network(
                hardware_addresses=answered(), unanswered=unanswered(), neighbour_table=filled_since(room)
            )
            return "failed", f"{count(len(facts.bad), 'link')} {'does' if len(facts.bad) == 1 else 'do'} not work"
        return "ok", count(facts.good, "link")

    def close(self) -> None:
        """Listen no longer."""
        if self._listener is not None:
            self._listener.close()


def targets(participants: Iterable[Participant], *, nccl: bool) -> Iterator[Target]:
    """Every node's addresses that its peers would use, each once; with ``nccl`` also what NCCL would."""
    everyone = list(participants)
    one_host = len({one.facts.identity.host for one in everyone}) == 1
    for one in everyone:
        if one.mesh_port is None:
            continue
        uses: dict[str, list[str]] = {}
        for use, address in addresses_of(one.facts, nccl=nccl):
            if one_host or not is_loopback(address):
                uses.setdefault(address, []).append(use)
        for address, use_of in uses.items():
            yield Target(one.number, one.facts.key, address, one.mesh_port, tuple(use_of))
