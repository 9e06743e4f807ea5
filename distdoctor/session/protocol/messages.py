"""What the nodes tell each other through the meeting's store: its keys, and the messages under them.

Every message is one of these dataclasses as JSON, its types checked when it is read; nothing is unpickled or evaluated.
Participants (started processes) number themselves from 1 with a counter and write under ``m/<number>/<sequence>``; the
leader (in the process of node 0 that opens the stages, itself participant 0, which needs no store to talk to itself)
writes ``c/<sequence>``. A participant raises ``tick`` after each message. With a token every value is sealed
(``distdoctor.session.protocol.trust``). Numbers are looked at before they are used: ``distdoctor.model.bounds``,
``distdoctor.session.protocol.trust``. The names of fields and keys are part of what is sent: they stay.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, field
from typing import Literal

from distdoctor.mesh.listener import TOKEN_BYTES, Target
from distdoctor.model.bounds import FIRST_LISTENING_PORT, MAX_ROUNDS, check_facts, check_plan, check_run, within
from distdoctor.model.facts import BadFacts, NodeFacts, decode
from distdoctor.model.plan import Plan

PROTOCOL = 3
"""Raised with each change that a process of the one before does not understand. 2: the report is packed; 3: a listener
says at which address it sees the caller."""
EVENT_BYTES = 2 * 1024 * 1024
VERSION_LENGTH = 64
RANK_BYTES = 16 * 1024
"""The most that one process tells of itself, and of each of its ranks."""


class Keys:
    """The keys of one run: all of them, so that nothing else of a store is touched."""

    def __init__(self, run: str) -> None:
        self._run = f"distdoctor/{run}/"
        self.members = f"{self._run}members"
        """Counts the processes that came."""
        self.tick = f"{self._run}tick"
        """Counts their messages."""
        self.bye = f"{self._run}bye"
        """Counts those that have told their report and go."""
        self.astray = f"{self._run}astray"
        """Counts those that look for the store in another place, and found it here."""
        self.done = f"{self._run}done"
        """Written by node 0: all may go."""

    @staticmethod
    def marker(plan: Plan) -> str:
        """Return where a run is found.

        An agent's store outlives one set of ranks, so there it is kept apart by restart."""
        return f"distdoctor/{plan.run_id}/{plan.restart}/marker" if plan.agent_store else "distdoctor/marker"

    @staticmethod
    def callers(plan: Plan) -> str:
        """Counts the processes that are not let in because of their token. They do not know the run's own keys."""
        return f"{Keys.marker(plan)}/callers"

    @staticmethod
    def caller(plan: Plan, number: int) -> str:
        """The account that one of those gives of itself, which is never sealed."""
        return f"{Keys.callers(plan)}/{number}"

    def message(self, number: int, sequence: int) -> str:
        """Return what a participant told, one after the other from 0."""
        return f"{self._run}m/{number}/{sequence}"

    def stray(self, number: int) -> str:
        """The facts of one of those."""
        return f"{self._run}astray/{number}"

    def beat(self, number: int) -> str:
        """Counts on as long as that participant is there."""
        return f"{self._run}beat/{number}"

    def command(self, sequence: int) -> str:
        """Return what node 0 told, one after the other from 0."""
        return f"{self._run}c/{sequence}"

    def report(self, part: int) -> str:
        """The report, in as many parts as its announcement says."""
        return f"{self._run}report/{part}"

    def prefix(self, stage: str, attempt: int = 0) -> str:
        """Below it are PyTorch's own keys, of one stage."""
        return f"{self._run}{stage}/{attempt}"

    def place(self, key: str) -> str:
        """The key without the run, as it is shown."""
        return key.removeprefix(self._run)


class Transcript:
    """All that node 0 told, in one number: two that are equal come from the same commands in the same order."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()

    def add(self, data: bytes) -> None:
        """One more command, as it was written."""
        self._sum.update(len(data).to_bytes(8, "big") + data)

    def digest(self) -> bytes:
        """Its 32 bytes."""
        return self._sum.digest()


@dataclass(frozen=True)
class Marker:
    """The doctor's mark on a store: this store is for a check, and for this run."""

    run: str
    token: str
    """Random; whoever connects to one of the doctor's own listeners must show it. Empty where the run has a token of
    its own: this one is then made from it, and is not to be read in the store."""
    version: str
    protocol: int = PROTOCOL
    host: str = ""
    """The name of node 0's host."""
    plan: Plan | None = None
    """Node 0's plan, for who finds this store on another port than its own. None: of a version that did not write it.
    """


@dataclass(frozen=True)
class Event:
    """A participant's message: ``hello``; the ``result`` of a stage; ``trouble`` (one rank failed, the others still
    try); ``left`` (it was interrupted)."""

    kind: Literal["hello", "result", "trouble", "left"]
    facts: NodeFacts | None = None
    stage: str = ""
    attempt: int = 0
    ok: bool = True
    error: str = ""
    mesh_port: int | None = None
    nonce: str = ""
    """Of a hello: random; the report says whom it counted by it, so that no report of another run is taken for it."""


@dataclass(frozen=True)
class Command:
    """The leader's message: climb a ``stage``; ``skip`` one; ``abort`` the one under way; ``report``: it is there."""

    op: Literal["stage", "skip", "abort", "report"]
    stage: str = ""
    attempt: int = 0
    seconds: float = 0.0
    reason: str = ""
    blocked_by: str | None = None
    world: int = 0
    group_ranks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Number of a participant -> the ranks its processes take in the doctor's own groups (those present, numbered from
    0)."""
    ranks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Number of a participant -> the job's ranks of the same processes."""
    node_ranks: dict[str, int] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    """Of a search: number of a participant -> the group that its processes are in; their ranks are that group's."""
    apart: bool = False
    """Of a search: each process that is in a group tries its own ranks, each alone and in pairs."""
    across: int | None = None
    """Of a search: of the two processes in a group each rank of the first is tried with one of the second, with that
    of its own place, or so many places further."""
    targets: tuple[Target, ...] = ()
    limited: tuple[str, ...] = ()
    """Of the links' stage and gloo's: the addresses that let in only so many new connections in a time."""
    lead: int = 0
    """The number of the leader's own process."""
    announced: str = ""
    """Of the links' stage: the name by which torchrun's ranks will look for their store, which each node looks up."""
    announcer: int | None = None
    """The number of the process of the node that has it, which each node tries to reach by that name."""
    env: dict[str, dict[str, str | None]] = field(default_factory=dict)
    """Number of a participant -> variables to set (null: unset) in the processes of a trial."""
    marks: dict[str, str] = field(default_factory=dict)
    """Of the first stage: the folders that all are to have in common -> the file that node 0 left there."""
    parts: int = 0
    """Of a report: how many values it is stored in."""
    digest: str = ""
    """Of a report: the SHA-256 of what is stored."""
    packed: bool = False
    """Of a report: it is stored as zlib makes it small."""
    met: dict[str, str] = field(default_factory=dict)
    """Of a report: number of a participant -> its hello's nonce, of those it is about."""
    port: int | None = None
    """Of a report: where node 0's own listener says whether these commands are its own."""


class OtherProtocol(Exception):
    """A mark of a distdoctor that speaks to its nodes in another way; its version in words."""


@dataclass(frozen=True)
class _Speaker:
    """What every version's mark says."""

    version: str
    protocol: int


def read_marker(data: bytes) -> Marker:
    """Raises OtherProtocol for another distdoctor's mark, and BadFacts where it is not what a node 0 writes."""
    speaker = decode(data, _Speaker)
    if speaker.protocol != PROTOCOL:
        within("length of a version", len(speaker.version), 1, VERSION_LENGTH)
        raise OtherProtocol(speaker.version)
    marker = decode(data, Marker)
    check_run(marker.run, marker.token, TOKEN_BYTES)
    within("length of a name", len(marker.host), 0, 1024)
    if marker.plan is not None:
        check_plan(marker.plan)
    return marker


def read_facts(data: bytes) -> NodeFacts:
    """The facts of a process that is no participant. Raises BadFacts where they are none, or too large."""
    facts = decode(data, NodeFacts)
    within("size in bytes", len(data), 0, EVENT_BYTES + len(facts.ranks) * RANK_BYTES)
    check_facts(facts)
    return facts


def read_event(data: bytes) -> Event:
    """A participant's message. Raises BadFacts where it is none, or larger than any that a participant writes."""
    event = decode(data, Event)
    if event.facts is not None:
        ranks = len(event.facts.ranks)
        within("size in bytes", len(data), 0, EVENT_BYTES + ranks * RANK_BYTES)
        check_facts(event.facts)
    within("mesh port", event.mesh_port, FIRST_LISTENING_PORT, 65535)
    within("attempt", event.attempt, 0, MAX_ROUNDS)
    within("length of a text", max(len(event.error), len(event.stage), len(event.nonce)), 0, 4096)
    return event


# The report on its way: what it says of each node is much the same, and every process reads all of it.


MOST = 64 << 20
"""Bytes that a report may have: as many as it could have in its parts as it is."""
LEVEL = 1
"""The quickest: that of 1,024 nodes becomes a twentieth."""


def pack(data: bytes) -> bytes:
    """``data``, made small."""
    return zlib.compress(data, LEVEL)


def unpack(packed: bytes) -> bytes:
    """The bytes that were packed. Raises BadFacts where these were not, or where they are more than a report has."""
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(packed, MOST)
    except zlib.error as err:
        raise BadFacts(str(err)) from None
    if not unpacking.eof:
        raise BadFacts("it is cut off, or larger than a report can be")
    return data
