"""Name resolution, with a deadline that getaddrinfo() itself does not have."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from distdoctor.facts import HostsLine, Resolution

RESOLVE_SECONDS = 4.0
"""How long one look-up may take. A DNS server that drops packets costs 5 to 10 s by resolv.conf's defaults."""

T = TypeVar("T")


async def in_thread(function: Callable[[], T], seconds: float) -> T:
    """``function()`` in a daemon thread. Raises asyncio.TimeoutError after ``seconds``; the thread is then left behind.

    The thread cannot keep the process alive, as those of an executor would.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if not future.done():
            if error is None:
                future.set_result(value)  # type: ignore[arg-type]
            else:
                future.set_exception(error)

    def run() -> None:
        value, error = None, None
        try:
            value = function()
        except Exception as err:
            error = err
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:  # the loop is closed: nobody waits for this any more
            pass

    threading.Thread(target=run, daemon=True, name="distdoctor:dns").start()
    return await asyncio.wait_for(future, seconds)


async def resolve(name: str, seconds: float = RESOLVE_SECONDS) -> Resolution:
    """getaddrinfo(name) as gloo and the TCPStore call it: any family, stream sockets, addresses in order."""
    started = time.monotonic()
    try:
        rows = await in_thread(lambda: socket.getaddrinfo(name, None, socket.AF_UNSPEC, socket.SOCK_STREAM), seconds)
    except asyncio.TimeoutError:
        spent = time.monotonic() - started
        return Resolution(name, error=f"no answer within {seconds:g} s", seconds=spent, timed_out=True)
    except (OSError, UnicodeError) as err:
        text = err.strerror if isinstance(err, OSError) and err.strerror else str(err)
        return Resolution(name, error=text, seconds=time.monotonic() - started)
    addresses = dict.fromkeys(str(row[4][0]).partition("%")[0] for row in rows)
    return Resolution(name, tuple(addresses), seconds=time.monotonic() - started)


async def reverse(address: str, seconds: float = RESOLVE_SECONDS) -> Resolution:
    """The name of ``address``, as a TCPStore client asks for it; ``addresses`` holds the name."""
    started = time.monotonic()
    # c10d asks for the address of its dual-stack socket (socket.cpp, formatSockAddr), so IPv4 comes mapped into IPv6.
    asked = address if ":" in address else f"::ffff:{address}"
    try:
        name, _ = await in_thread(lambda: socket.getnameinfo((asked, 0), socket.NI_NAMEREQD), seconds)
    except asyncio.TimeoutError:
        spent = time.monotonic() - started
        return Resolution(address, error=f"no answer within {seconds:g} s", seconds=spent, timed_out=True)
    except OSError as err:
        return Resolution(address, error=err.strerror or str(err), seconds=time.monotonic() - started)
    return Resolution(address, (name,), seconds=time.monotonic() - started)


def hosts_lines(wanted: Callable[[list[str]], bool], path: str = "/etc/hosts") -> tuple[HostsLine, ...]:
    """The lines of /etc/hosts whose fields (address, names...) are ``wanted``; at most 20."""
    found = []
    for number, text in _hosts_file(path):
        entry = text.partition("#")[0].strip()
        fields = entry.split()
        if len(fields) > 1 and wanted(fields):
            found.append(HostsLine(number, entry[:200]))
    return tuple(found[:20])


def name_in_hosts(address: str, path: str = "/etc/hosts") -> str | None:
    """What /etc/hosts calls ``address``: the first name of its first line, or None."""
    lines = hosts_lines(lambda fields: fields[0] == address, path)
    return lines[0].text.split()[1] if lines else None


def _hosts_file(path: str) -> list[tuple[int, str]]:
    try:
        with open(path, errors="replace") as file:
            return list(enumerate(file.read(4 << 20).splitlines(), 1))
    except OSError:
        return []
