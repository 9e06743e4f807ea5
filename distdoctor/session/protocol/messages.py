"""Messages between the nodes of a check: the keys in the store, and the JSON under them.

Every message is one of these dataclasses as JSON, its types checked when it is read; nothing is unpickled or evaluated.
Participants (started processes) number themselves from 1 with a counter and write under ``m/<number>/<sequence>``; the
leader (in the process of node 0 that opens the stages, itself participant 0, which needs no store to talk to itself)
writes ``c/<sequence>``. A participant raises ``tick`` after each message. With a token every value is sealed
(``distdoctor.session.protocol.trust``). Numbers are checked before they are used: ``distdoctor.model.bounds``,
``distdoctor.session.protocol.trust``. The names of fields and keys are part of the protocol: they stay.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, field
from typing import Literal

from distdoctor.mesh.listener import TOKEN_BYTES, LinkTarget
from distdoctor.model.bounds import FIRST_LISTENING_PORT, MAX_ROUNDS, check_facts, check_plan, check_run, within
from distdoctor.model.facts import BadFacts, NodeFacts, decode
from distdoctor.model.plan import Plan

PROTOCOL = 3
"""Version, raised with each change that the one before does not understand. 2: the report is packed; 3: a listener
sends the address at which it sees its client."""
EVENT_BYTES = 2 * 1024 * 1024
VERSION_LENGTH = 64
RANK_BYTES = 16 * 1024
"""Limits of one process's message, and of the part of each of its ranks."""


class RunKeys:
    """Keys of one run: all of them, so that nothing else of a store is touched."""

    def __init__(self, run: str) -> None:
        self._run = f"distdoctor/{run}/"
        self.members = f"{self._run}members"
        """Counter of the processes that enrolled."""
        self.tick = f"{self._run}tick"
        """Counter of their messages."""
        self.bye = f"{self._run}bye"
        """Counter of those that have printed their report and leave."""
        self.astray = f"{self._run}astray"
        """Counter of processes that look for the store at another address or port, and found it here."""
        self.done = f"{self._run}done"
        """Written by node 0: all may leave."""

    @staticmethod
    def marker(plan: Plan) -> str:
        """Return the key of the marker of a run.

        An agent's store outlives one set of ranks, so the key there contains the restart count.
        """
        return f"distdoctor/{plan.run_id}/{plan.restart}/marker" if plan.agent_store else "distdoctor/marker"

    @staticmethod
    def callers(plan: Plan) -> str:
        """Return the counter of processes refused because of their token. They do not know the run's own keys."""
        return f"{RunKeys.marker(plan)}/callers"

    @staticmethod
    def caller(plan: Plan, number: int) -> str:
        """Return the key of a refused process's account of itself, which is never sealed."""
        return f"{RunKeys.callers(plan)}/{number}"

    def message(self, number: int, sequence: int) -> str:
        """Return the key of a participant's message; ``sequence`` counts from 0."""
        return f"{self._run}m/{number}/{sequence}"

    def stray(self, number: int) -> str:
        """Return the key of the facts of a process counted under ``astray``."""
        return f"{self._run}astray/{number}"

    def beat(self, number: int) -> str:
        """Return the counter that a participant raises as long as it lives."""
        return f"{self._run}beat/{number}"

    def command(self, sequence: int) -> str:
        """Return the key of node 0's command; ``sequence`` counts from 0."""
        return f"{self._run}c/{sequence}"

    def report(self, part: int) -> str:
        """Return the key of a part of the report; its announcement has the number of parts."""
        return f"{self._run}report/{part}"

    def prefix(self, stage: str, attempt: int = 0) -> str:
        """Return the prefix of PyTorch's own keys in one stage."""
        return f"{self._run}{stage}/{attempt}"

    def place(self, key: str) -> str:
        """Return the key without the run, as it is shown."""
        return key.removeprefix(self._run)


class Transcript:
    """Hash of all of node 0's commands: equal digests come from the same commands in the same order."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()

    def add(self, data: bytes) -> None:
        """Add one command, as it was written."""
        self._sum.update(len(data).to_bytes(8, "big") + data)

    def digest(self) -> bytes:
        """Return the digest, 32 bytes."""
        return self._sum.digest()


@dataclass(frozen=True)
class Marker:
    """Mark on a store: it is for a check, and for this run."""

    run: str
    token: str
    """Random secret that a client of one of distdoctor's own listeners must send.

    Empty if the run has a token of its own: this one is then derived from it, and not readable in the store.
    """
    version: str
    protocol: int = PROTOCOL
    host: str = ""
    """Hostname of node 0."""
    plan: Plan | None = None
    """Node 0's plan, for a process that finds this store on another port than its own. None: an older version wrote it.
    """


@dataclass(frozen=True)
class Event:
    """Participant's message: ``hello``; the ``result`` of a stage; ``trouble`` (one rank failed, the others still try);
    ``left`` (it was interrupted)."""

    kind: Literal["hello", "result", "trouble", "left"]
    facts: NodeFacts | None = None
    stage: str = ""
    attempt: int = 0
    ok: bool = True
    error: str = ""
    mesh_port: int | None = None
    nonce: str = ""
    """In a hello: random text by which the report names the processes it counted, so that no report of another run
    passes."""


@dataclass(frozen=True)
class Command:
    """Leader's message: run a ``stage``; ``skip`` one; ``abort`` the running one; ``report``: it is there."""

    op: Literal["stage", "skip", "abort", "report"]
    stage: str = ""
    attempt: int = 0
    seconds: float = 0.0
    reason: str = ""
    blocked_by: str | None = None
    world: int = 0
    group_ranks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Number of a participant -> ranks of its processes in the groups of the check (those present, numbered from 0)."""
    ranks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Number of a participant -> ranks of the same processes in the job."""
    node_ranks: dict[str, int] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    """In a search: number of a participant -> group of its processes; their ranks count within it."""
    apart: bool = False
    """In a search: each process in a group tries its own ranks, each alone and in pairs."""
    across: int | None = None
    """In a search: each rank of the group's first process is tried with the rank of the second whose index is this much
    higher."""
    targets: tuple[LinkTarget, ...] = ()
    limited: tuple[str, ...] = ()
    """Addresses that limit new connections per time: in the mesh and gloo stages, and in the collective stage with
    further groups."""
    lead: int = 0
    """Number of the leader's own process."""
    announced: str = ""
    """In the mesh stage: name by which torchrun's ranks will look up their store; each node looks it up."""
    announcer: int | None = None
    """Number of the process of the node with that name, which each node tries to reach by it."""
    env: dict[str, dict[str, str | None]] = field(default_factory=dict)
    """Number of a participant -> variables to set (null: unset) in the processes of a trial."""
    mesh: tuple[tuple[str, int], ...] = ()
    """In the collective stage: device mesh whose groups are created and used, too."""
    mesh_order: tuple[str, ...] = ()
    """In the collective stage: order of its dimensions, if it is not the mesh's own."""
    extra: int = 0
    """In the collective stage: number of groups of all ranks that are created and used after those of the mesh."""
    marks: dict[str, str] = field(default_factory=dict)
    """In the first stage: folders that all are to share -> file that node 0 left there."""
    parts: int = 0
    """In a report: number of values that hold it."""
    digest: str = ""
    """In a report: SHA-256 of what is stored."""
    packed: bool = False
    """In a report: stored compressed by zlib."""
    met: dict[str, str] = field(default_factory=dict)
    """In a report: number of a participant -> nonce of its hello, for those it counts."""
    port: int | None = None
    """In a report: port of node 0's listener that confirms these commands."""


class OtherProtocol(Exception):
    """Mark of a distdoctor with another protocol; the text holds its version."""


@dataclass(frozen=True)
class _Speaker:
    """Fields of every version's marker."""

    version: str
    protocol: int


def read_marker(data: bytes) -> Marker:
    """Return the marker. Raises OtherProtocol for another distdoctor's marker, BadFacts if no node 0 writes it."""
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
    """Return the facts of a process that is no participant. Raises BadFacts if they are none, or too large."""
    facts = decode(data, NodeFacts)
    within("size in bytes", len(data), 0, EVENT_BYTES + len(facts.ranks) * RANK_BYTES)
    check_facts(facts)
    return facts


def read_event(data: bytes) -> Event:
    """Return a participant's message. Raises BadFacts if it is none, or larger than any that a participant writes."""
    event = decode(data, Event)
    if event.facts is not None:
        ranks = len(event.facts.ranks)
        within("size in bytes", len(data), 0, EVENT_BYTES + ranks * RANK_BYTES)
        check_facts(event.facts)
    within("mesh port", event.mesh_port, FIRST_LISTENING_PORT, 65535)
    within("attempt", event.attempt, 0, MAX_ROUNDS)
    within("length of a text", max(len(event.error), len(event.stage), len(event.nonce)), 0, 4096)
    return event


# Compression of the report: it says much the same of each node, and every process reads all of it.


MOST = 64 << 20
"""Limit of a report in bytes: as many as fit uncompressed into its parts."""
LEVEL = 1
"""Fastest level: the report of 1,024 nodes shrinks to a twentieth."""


def pack(data: bytes) -> bytes:
    """Return ``data`` compressed."""
    return zlib.compress(data, LEVEL)


def unpack(packed: bytes) -> bytes:
    """Return the decompressed bytes. Raises BadFacts if they are not compressed, or more than a report may have."""
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(packed, MOST)
    except zlib.error as err:
        raise BadFacts(str(err)) from None
    if not unpacking.eof:
        raise BadFacts("it is cut off, or larger than a report can be")
    return data
