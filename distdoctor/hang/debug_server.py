"""Clients of a job's own servers: torch.distributed.debug's worker servers and NCCL's RAS.

torch/csrc/distributed/c10d/control_plane: each rank serves HTTP, without a password, with POST requests. Requested are
``ping`` and ``fr_trace_json`` (torch 2.8 and later), which answer whatever the main thread does. ``dump_traceback``
does not (it takes the interpreter's lock), and handlers that profile or write files are left alone.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Collection, Mapping

from distdoctor.logs.flight_recorder import BadDump, Dump, Step, load
from distdoctor.logs.ras import counts_in, missing_from
from distdoctor.model.addresses import parse_address
from distdoctor.model.facts import RasView, RecordedCall, RecorderView, StoreView, WorkerServer
from distdoctor.model.text import fit
from distdoctor.probes.network.tcp import open_socket
from distdoctor.probes.resolver import ASKER

_URL = re.compile(r"http://(?P<host>\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9._-]{1,253}):(?P<port>\d{1,5})/?")
_AT_ONCE = 32
_MOST_ASKED = 256
_MAX_ANSWER_BYTES = 16 * 1024 * 1024
_CALLS = 8
"""Newest calls of a group that are reported."""
_GROUPS = 16


def ask_debug_servers(view: StoreView, *, timeout: float, hosts: Collection[str] = ()) -> tuple[WorkerServer, ...]:
    """Return the answers of the worker servers named in a store, within ``timeout`` seconds together.

    Only hosts of the job are asked: those whose ranks wrote into the store, and ``hosts`` (names or addresses).
    """
    return asyncio.run(_servers(view, time.monotonic() + timeout, set(hosts)))


async def _servers(view: StoreView, end: float, hosts: set[str]) -> tuple[WorkerServer, ...]:
    members = [member for group in view.groups for member in group.members]
    known = {member.host: member.address for member in reversed(members) if member.host}
    turns = asyncio.Semaphore(_AT_ONCE)

    async def ask(rank: int, url: str) -> WorkerServer:
        async with turns:
            try:
                return await _ask_server(rank, url, known, {view.host, *hosts}, end)
            except NoAnswer as err:
                return WorkerServer(rank, url, problem=fit(str(err)))

    named = list(view.debug_servers.items())[:_MOST_ASKED]
    return tuple(await asyncio.gather(*(ask(rank, url) for rank, url in named)))


async def _ask_server(rank: int, url: str, known: Mapping[str, str], hosts: set[str], end: float) -> WorkerServer:
    match = _URL.fullmatch(url)
    if match is None or not 0 < int(match["port"]) <= 65535:
        raise NoAnswer("no address of a worker server")
    host, port = match["host"].strip("[]"), int(match["port"])
    if host not in known and host not in hosts:
        raise NoAnswer("not asked: its host is none of the job's")
    # The addresses of its own ranks come before the local meaning of the name.
    address = known.get(host) or await _address(host, end)
    status, _ = await _post(address, port, "ping", end)
    if status != 200:
        raise NoAnswer(f"a ping is answered with {status}")
    try:
        status, body = await _post(address, port, "fr_trace_json", end)
        if status != 200:
            raise NoAnswer(f"its flight recorder is answered with {status}")
        dump = load("", body)
    except (NoAnswer, BadDump) as err:
        return WorkerServer(rank, url, answers=True, problem=fit(str(err)))
    return WorkerServer(rank, url, answers=True, recorders=recorders_of(dump))


async def _address(host: str, end: float) -> str:
    if parse_address(host):
        return host
    found = (await ASKER.ask("addresses", host, max(0.1, end - time.monotonic()), hurry=True)).found
    if not found:
        raise NoAnswer(f"no address of {host} is known here")
    return found[0]


async def _post(address: str, port: int, handler: str, end: float) -> tuple[int, bytes]:
    """Return status and body of a handler's answer. Raises NoAnswer."""
    message = f"POST /handler/{handler} HTTP/1.0\r\nHost: {handler}\r\nContent-Length: 0\r\n\r\n".encode()
    data, whole = await exchange(address, port, message, end, _MAX_ANSWER_BYTES)
    head, _, body = data.partition(b"\r\n\r\n")
    status = re.match(rb"HTTP/1\.[01] (\d{3})", head)
    if status is None:
        raise NoAnswer("it answers no HTTP" if data else "it does not answer")
    if not whole:
        raise NoAnswer("it did not answer whole in time")
    return int(status[1]), body


def recorders_of(dump: Dump) -> tuple[RecorderView, ...]:
    """Return the newest calls of each group in a dump."""
    return tuple(
        RecorderView(fit(group), tuple(_call(number, steps[number]) for number in sorted(steps)[-_CALLS:]))
        for group, steps in list(dump.groups.items())[:_GROUPS]
    )


def _call(number: int, step: Step) -> RecordedCall:
    age = round(time.time() - step.created / 1e9, 1) if step.created > 0 else None
    return RecordedCall(number, fit(step.operation), fit(step.elements), step.done, fit(step.frame), age)


# Exchange of a few lines of text with a server, bounded in time and size.


class NoAnswer(Exception):
    """Missing or unexpected answer; the text describes it."""


async def exchange(address: str, port: int, message: bytes, end: float, most: int) -> tuple[bytes, bool]:
    """Return the answer to ``message`` until the other side closes, and whether it closed before ``end`` and ``most``.

    ``end``: by time.monotonic(). ``most``: bytes. Raises NoAnswer.
    """
    contact, opened = await open_socket(address, port, max(0.05, end - time.monotonic()))
    if opened is None:
        raise NoAnswer(f"connect to {address} port {port}: {contact.outcome}")
    loop = asyncio.get_running_loop()
    received = bytearray()
    with opened:
        try:
            await asyncio.wait_for(loop.sock_sendall(opened, message), max(0.05, end - time.monotonic()))
            while len(received) < most and (left := end - time.monotonic()) > 0:
                part = await asyncio.wait_for(loop.sock_recv(opened, 1 << 16), left)
                if not part:
                    return bytes(received), True
                received += part
        except asyncio.TimeoutError:
            pass
        except OSError as err:
            raise NoAnswer(f"the connection to {address} port {port} ended: {err}") from None
    return bytes(received), False


# NCCL's RAS (2.24 and later): a view of all communicators from any process that has one.
#
# A text protocol (src/ras/client.cc, client_support.cc): a line for each setting, each answered with one; then
# ``STATUS``, answered with text until the end of the connection. It changes only the timeout of this client. A process
# without a communicator has no useful answer.


RAS_PORT = 28028
"""Port of RAS on localhost, unless NCCL_RAS_ADDR sets another."""
_MAX_RAS_BYTES = 4 * 1024 * 1024
_PARAGRAPHS = 64
_SECTION = re.compile(r"^(Job summary|Communicators\.\.\.[^\n]*|Errors|Warnings)\n=+\n", re.MULTILINE)


def ask_ras(address: str = "127.0.0.1", port: int = RAS_PORT, *, timeout: float, world: int | None = None) -> RasView:
    """Return RAS's answer within ``timeout`` seconds, for a job of ``world`` ranks.

    Never raises for a bad answer.
    """
    return asyncio.run(_ask_ras(address, port, timeout, world))


async def _ask_ras(address: str, port: int, timeout: float, world: int | None) -> RasView:
    gather = max(1, int(timeout / 2))  # seconds that RAS waits for its peers; its default of 5 may be more than we have
    lines = ("CLIENT PROTOCOL 2", f"TIMEOUT {gather}", "STATUS")
    message = "".join(f"{line}\n" for line in lines).encode()
    view = RasView(address, port)
    try:
        data, whole = await exchange(address, port, message, time.monotonic() + timeout, _MAX_RAS_BYTES)
    except NoAnswer as err:
        return RasView(address, port, problem=fit(str(err)))
    text = data.decode("utf-8", "replace")
    if not text.startswith("SERVER PROTOCOL "):
        answer = f"it says {fit(text, 60)!r}" if text else "it says nothing"
        return RasView(address, port, problem=f"no RAS: {answer}")
    version = re.search(r"^NCCL version (\S{1,40})", text, re.MULTILINE)
    sections = _sections(text)
    table = next((section for name, section in sections.items() if name.startswith("Communicators")), "")
    missing, bereft = missing_from(sections.get("Errors", ""), table, world)
    return RasView(
        view.address,
        view.port,
        answers=True,
        version=fit(version[1]) if version else "",
        errors=_paragraphs(sections.get("Errors", "")),
        warnings=_paragraphs(sections.get("Warnings", "")),
        counts=counts_in(sections.get("Warnings", "")),
        missing=missing,
        bereft=bereft,
        whole=whole and "Warnings" in sections,
        problem="" if whole else f"not all was told within {timeout:g} s",
    )


def _sections(text: str) -> dict[str, str]:
    found = list(_SECTION.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    return {match[1]: text[match.end() : end] for match, end in zip(found, ends, strict=True)}


def _paragraphs(text: str) -> tuple[str, ...]:
    parts = (" ".join(part.split()) for part in text[:100_000].split("\n\n"))
    return tuple(fit(part, 500) for part in parts if part)[:_PARAGRAPHS]
