"""Network namespaces of other processes, entered by one thread for the duration of a request (setns(2), as root)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from distdoctor.hang import proc
from distdoctor.model.addresses import parse_address

_CLONE_NEWNET = 0x40000000
MOST = 64 * 1024
"""Most bytes of a hosts file that are read."""


@contextmanager
def inside(pid: int) -> Iterator[None]:
    """Run the body in the network namespace of ``pid``: sockets that this thread opens are there. Raises OSError."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        other = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _enter(other)
        finally:
            os.close(other)
        try:
            yield
        finally:
            _enter(own)
    finally:
        os.close(own)


@contextmanager
def of(pids: Iterable[int], netns: str) -> Iterator[None]:
    """Run the body in the network namespace of these processes, if it is another one. Raises OSError.

    ``netns``: the target of its link in /proc; empty if unknown.
    """
    if not netns or netns == proc.read_link("thread-self", "ns/net"):
        yield
    else:
        with inside(min(pids)):
            yield


def address_in_namespace(pid: int, name: str) -> str:
    """Return the address of ``name`` in the hosts file of ``pid``: names of containers are known inside only."""
    try:
        opened = os.open(f"/proc/{pid}/root/etc/hosts", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return ""
    try:
        text = os.read(opened, MOST).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(opened)
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        if name in names and parse_address(address):
            return address
    return ""


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
