"""The worker servers of torch.distributed.debug, where a job has started them and says so in its store.

torch/csrc/distributed/c10d/control_plane: each rank serves HTTP, without a password; what it can tell is asked for with
POST. Asked are ``ping`` and ``fr_trace_json`` (torch 2.8 and later), which answer whatever the main thread does.
``dump_traceback`` does not (it takes the interpreter's lock), and what profiles or writes files is left alone.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Collection, Mapping

from distdoctor.inspection.exchange import NoAnswer, exchange
from distdoctor.logs.flight_recorder import BadDump, Dump, Step, load
from distdoctor.model.addresses import parse_address
from distdoctor.model.facts import RecordedCall, RecorderView, StoreView, WorkerServer
from distdoctor.model.sanitize import fit
from distdoctor.probes.look_up import ASKER

_URL = re.compile(r"http://(?P<host>\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9._-]{1,253}):(?P<port>\d{1,5})/?")
_AT_ONCE = 32
_MOST_ASKED = 256
_MOST = 16 * 1024 * 1024
_CALLS = 8
"""How many of the newest calls of a group are told."""
_GROUPS = 16


def servers(view: StoreView, *, timeout: float, hosts: Collection[str] = ()) -> tuple[WorkerServer, ...]:
    """What the worker servers that are named in a store tell, in ``timeout`` seconds together.

    Only hosts of the job are asked: those whose ranks wrote into the store, and ``hosts`` (names or addresses).
    """
    return asyncio.run(_servers(view, time.monotonic() + timeout, set(hosts)))


async def _servers(view: StoreView, end: float, hosts: set[str]) -> tuple[WorkerServer, ...]:
    members = [member for group in view.groups for member in group.members]
    known = {member.host: member.address for member in reversed(members) if member.host}
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(rank: int, url: str) -> WorkerServer:
        async with turns:
            try:
                return await _ask(rank, url, known, {view.host, *hosts}, end)
            except NoAnswer as err:
                return WorkerServer(rank, url, problem=fit(str(err)))

    named = list(view.debug_servers.items())[:_MOST_ASKED]
    return tuple(await asyncio.gather(*(one(rank, url) for rank, url in named)))


async def _ask(rank: int, url: str, known: Mapping[str, str], hosts: set[str], end: float) -> WorkerServer:
    match = _URL.fullmatch(url)
    if match is None or not 0 < int(match["port"]) <= 65535:
        raise NoAnswer("no address of a worker server")
    host, port = match["host"].strip("[]"), int(match["port"])
    if host not in known and host not in hosts:
        raise NoAnswer("not asked: its host is none of the job's")
    # What its own ranks listen on, before what the name means here.
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
    """The status and the body that a handler answers with. Raises NoAnswer."""
    message = f"POST /handler/{handler} HTTP/1.0\r\nHost: {handler}\r\nContent-Length: 0\r\n\r\n".encode()
    data, whole = await exchange(address, port, message, end, _MOST)
    head, _, body = data.partition(b"\r\n\r\n")
    status = re.match(rb"HTTP/1\.[01] (\d{3})", head)
    if status is None:
        raise NoAnswer("it answers no HTTP" if data else "it does not answer")
    if not whole:
        raise NoAnswer("it did not answer whole in time")
    return int(status[1]), body


def recorders_of(dump: Dump) -> tuple[RecorderView, ...]:
    """The newest calls of each group in a dump."""
    return tuple(
        RecorderView(fit(group), tuple(_call(number, steps[number]) for number in sorted(steps)[-_CALLS:]))
        for group, steps in list(dump.groups.items())[:_GROUPS]
    )


def _call(number: int, step: Step) -> RecordedCall:
    age = round(time.time() - step.created / 1e9, 1) if step.created > 0 else None
    return RecordedCall(number, fit(step.operation), fit(step.elements), step.done, fit(step.frame), age)
