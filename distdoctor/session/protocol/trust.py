"""Authentication of the values in the store, and limits to what node 0 may order.

If the nodes of a run share a token, each value carries an HMAC-SHA256 over the value and its key. The key names the
run, the writer and the place in its sequence. So a message that is changed, moved to another key or taken from another
run is not authentic. The token itself is never written anywhere. Without a token values are stored as they are, and a
sealed one is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import struct
from collections.abc import Callable, Mapping

from distdoctor.mesh.listener import LinkTarget
from distdoctor.model.addresses import is_loopback, parse_address
from distdoctor.model.bounds import (
    FIRST_LISTENING_PORT,
    MAX_ADDRESSES,
    MAX_NODES,
    MAX_PARTS,
    MAX_RANKS,
    MAX_ROUNDS,
    MAX_WORLD,
    check_mesh,
    finite_seconds,
    within,
)
from distdoctor.model.facts import BadFacts
from distdoctor.model.stages import ALL_STAGES, BY_NAME, COLLECTIVE, GLOO, MESH, SEARCH, STORE, TRIAL
from distdoctor.probes.host.files import MARK_NAME
from distdoctor.session.protocol.messages import Command

MAGIC = b"distdoctor sealed 1\n"
MAC_BYTES = 32
OVERHEAD = len(MAGIC) + MAC_BYTES


class NotAuthentic(Exception):
    """Value that no process with this run's token wrote; the text gives the reason."""


class NotSealed(NotAuthentic):
    """Value without a code, although there is a token."""


class Sealed(NotAuthentic):
    """Value with a code, although there is no token."""


class Seal:
    """Seals values that are written, and verifies those that are read."""

    def __init__(self, token: str | None) -> None:
        secret = token.encode(errors="surrogateescape") if token else b""
        self._key = hashlib.sha256(b"distdoctor 1\0" + secret).digest() if secret else b""

    @property
    def keyed(self) -> bool:
        """Return whether there is a token."""
        return bool(self._key)

    def close(self, key: str, data: bytes) -> bytes:
        """Return ``data`` as it is written under ``key``."""
        return MAGIC + self._code(key, data) + data if self.keyed else data

    def open(self, key: str, value: bytes) -> bytes:
        """Return the data that was sealed under ``key``. Raises NotAuthentic."""
        sealed = value.startswith(MAGIC)
        if not self.keyed:
            if sealed:
                raise Sealed("is sealed with a token, and this node has none")
            return value
        if not sealed:
            raise NotSealed("is not sealed, though this run has a token")
        code, data = value[len(MAGIC) : OVERHEAD], value[OVERHEAD:]
        if not hmac.compare_digest(code, self._code(key, data)):
            raise NotAuthentic("is not sealed with this run's token, or was written for another place or run")
        return data

    def derived(self, name: str, length: int) -> str:
        """Return a secret of ``length`` bytes for another use, as hexadecimal digits."""
        return hashlib.pbkdf2_hmac("sha256", self._key, name.encode(), 1, length).hex()

    def _code(self, key: str, data: bytes) -> bytes:
        name = key.encode()
        return hmac.digest(self._key, struct.pack(">Q", len(name)) + name + data, "sha256")


# Limits of node 0's commands: whoever can write into the store may be its host, or no node at all.
#
# A participant runs each stage once and in order, with as many ranks as it planned itself; connects to a few addresses
# of other participants, never to its own loopback if they are on other hosts; and sets only the variables in TRIED.


ORDER = tuple(
    step.name
    for stage in ALL_STAGES
    if stage.opened
    for step in (stage, *[TRIAL] * stage.tries_fixes, *[SEARCH] * stage.searched)
)
"""Stages that node 0 opens, in order."""
_ONLY_IN: tuple[tuple[Callable[[Command], object], tuple[str, ...], str], ...] = (
    (lambda command: command.marks, (STORE.name,), "looks for no files"),
    (
        lambda command: command.targets or command.announced or command.announcer is not None,
        tuple(stage.name for stage in ALL_STAGES if stage.links),
        "connects to nobody",
    ),
    (
        lambda command: command.limited,
        (STORE.name, MESH.name, GLOO.name, COLLECTIVE.name),
        "does not wait for limited addresses",
    ),
    (lambda command: command.env, (TRIAL.name,), "sets no variables"),
    (lambda command: command.mesh or command.extra, (COLLECTIVE.name,), "creates no groups of a mesh"),
    (
        lambda command: command.groups or command.apart or command.across is not None,
        (SEARCH.name,),
        "does not run in such groups",
    ),
)
"""Parts of a command, the stages whose commands may have them, and the reason for which others may not."""
MAX_PATH = 4096
SURPLUS = 64
"""Processes beyond those planned that are still read: whoever starts too many gets a finding."""
HOST_NAME = re.compile(r"[\w.:-]{1,253}", re.ASCII)


class CommandValidator:
    """Admits the commands of one run, in their order."""

    def __init__(self, number: int, ranks: int, planned: int, *, one_host: bool) -> None:
        """Limit the commands. ``number``: this participant's, which has ``ranks``; ``planned``: processes that are to
        join; ``one_host``: the store is on this host, so that the others may be reached over loopback."""
        self._me, self._ranks, self._planned, self._one_host = number, ranks, planned, one_host
        self._place, self._round = 0, 0
        self._over = False

    def admit(self, command: Command) -> None:
        """Raise BadFacts if no node 0 of this run can have written ``command``."""
        if self._over:
            raise BadFacts("the report was announced before")
        if command.op in ("stage", "skip"):
            self._in_order(command)
        if command.op == "stage":
            self._stage(command)
        elif command.op == "report":
            self._over = True
            within("number of parts", command.parts, 1, MAX_PARTS)
        within("length of a reason", len(command.reason), 0, 4096)

    def _in_order(self, command: Command) -> None:
        if command.stage not in ORDER:
            raise BadFacts(f"there is no stage {command.stage[:40]!r} to be opened")
        place = ORDER.index(command.stage)
        again = command.stage == SEARCH.name and place == self._place - 1
        if place < self._place and not again:
            raise BadFacts(f"the stage {command.stage} was opened before, or its turn is over")
        if command.stage == SEARCH.name:
            self._round += 1
            within("round", self._round, 1, MAX_ROUNDS)
        attempt = self._round if command.stage == SEARCH.name else int(command.stage == TRIAL.name)
        within("attempt", command.attempt, attempt, attempt)
        self._place = place + 1

    def _stage(self, command: Command) -> None:
        finite_seconds("seconds", command.seconds)
        within("world", command.world, 1, MAX_RANKS)
        if sum(len(ranks) for ranks in command.group_ranks.values()) != command.world:
            raise BadFacts(f"{command.world} ranks are announced, and not as many are listed")
        if command.ranks.keys() != command.group_ranks.keys():
            raise BadFacts("the ranks of one process are not those of another")
        for is_set, stages, text in _ONLY_IN:
            if is_set(command) and command.stage not in stages:
                raise BadFacts(f"the stage {command.stage} {text}")
        mine = str(self._me)
        if mine in command.ranks:
            self._own_ranks(command.ranks[mine], command.group_ranks[mine], command.world)
            within("node rank", command.node_ranks.get(mine), 0, MAX_NODES)
        for path, name in command.marks.items():
            if len(path) > MAX_PATH or not MARK_NAME.fullmatch(name):
                raise BadFacts(f"{name[:40]!r} is no file of a check")
        if BY_NAME[command.stage].links:
            self._targets(command)
        if command.limited:
            self._limited(command)
        if command.announced and not HOST_NAME.fullmatch(command.announced):
            raise BadFacts(f"{command.announced[:60]!r} is no name of a host")
        check_env(command.env.get(mine, {}))
        check_mesh(command.mesh, command.extra, command.mesh_order)
        if command.stage == SEARCH.name:
            self._groups(command)

    def _groups(self, command: Command) -> None:
        mine = str(self._me)
        if not command.groups or not command.groups.keys() <= command.ranks.keys():
            raise BadFacts(f"the stage {command.stage} does not run in such groups")
        size = sum(group == command.groups.get(mine) for group in command.groups.values())
        paired = mine not in command.groups or (size == 2 and not command.apart)
        if command.across is not None and not (paired and command.across in (0, 1)):
            raise BadFacts(f"the stage {command.stage} does not run across such groups")

    def _own_ranks(self, ranks: tuple[int, ...], group: tuple[int, ...], world: int) -> None:
        if not len(ranks) == len(group) == self._ranks:
            raise BadFacts(f"{len(ranks)} ranks are to be started here, where {self._ranks} are planned")
        for rank in ranks:
            within("rank", rank, 0, MAX_WORLD)
        for rank in group:
            within("rank", rank, 0, world - 1)

    def _targets(self, command: Command) -> None:
        of: dict[int, set[str]] = {}
        ports: dict[int, int] = {}
        for target in command.targets:
            self._target(target)
            of.setdefault(target.member, set()).add(target.address)
            if ports.setdefault(target.member, target.port) != target.port:
                raise BadFacts(f"process {target.member} is said to listen on several ports")
        if len(of) > max(2 * self._planned, self._planned + SURPLUS):
            raise BadFacts(f"{len(of)} processes are to be connected to, where {self._planned} were planned")
        for member, addresses in of.items():
            within(f"number of addresses of process {member}", len(addresses), 1, MAX_ADDRESSES)

    def _limited(self, command: Command) -> None:
        within("number of limited addresses", len(command.limited), 1, MAX_ADDRESSES * (2 * self._planned + SURPLUS))
        for address in command.limited:
            if parse_address(address) is None:
                raise BadFacts(f"{address[:60]!r} is no address")

    def _target(self, target: LinkTarget) -> None:
        address = parse_address(target.address)
        if address is None or "%" in target.address:
            raise BadFacts(f"{target.address[:60]!r} is no address")
        if address.is_unspecified or address.is_multicast:
            raise BadFacts(f"{target.address[:60]} is the address of no host")
        if is_loopback(target.address) and not self._one_host and target.member != self._me:
            raise BadFacts(f"{target.address[:60]} is this host's own loopback, and the other processes are elsewhere")
        within("port", target.port, FIRST_LISTENING_PORT, 65535)


# Variables that the trial of a fix may set, whatever node 0 orders.


TRIED = ("GLOO_SOCKET_IFNAME", "GLOO_DEVICE_TRANSPORT")
"""Variables read when a process group is created; those of the launch line are read before and cannot be tried here."""
_VALUE = re.compile(r"[\w.:@,=^+-]{0,256}", re.ASCII)
"""Pattern of interface and transport names."""


def check_env(env: Mapping[str, str | None]) -> None:
    """Raise BadFacts if a variable is none that a trial sets, or its value none that it takes."""
    for name, value in env.items():
        if name not in TRIED:
            raise BadFacts(f"the variable {name[:60]!r} is none that a trial sets ({', '.join(TRIED)})")
        if value is not None and not _VALUE.fullmatch(value):
            raise BadFacts(f"{name} cannot be {value[:60]!r}")
