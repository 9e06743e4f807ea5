"""Ports of this host: who holds one, which can be bound, and the packet filter in front of them."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import replace
from pathlib import Path

import psutil

from distdoctor.model.addresses import endpoint
from distdoctor.model.facts import PortHolder

_OF_A_PROCESS = (psutil.CONN_ESTABLISHED, psutil.CONN_SYN_SENT, psutil.CONN_CLOSE_WAIT)
"""The states of a connection that a process has open; one that is only being closed has none any more."""
HOLDERS = 20
"""How many processes are named at most."""


def holders(port: int) -> tuple[PortHolder, ...]:
    """The processes that listen on TCP ``port`` here; where none does, those that have it as their own end of a
    connection, which keeps a listener away, too. Without root, another user's process shows with pid None; none shows
    where no file is left to look with."""
    listeners, connections = [], []
    try:
        seen = psutil.net_connections(kind="tcp")
    except OSError:
        return ()
    for one in seen:
        if not one.laddr or one.laddr.port != port:
            continue
        if one.status == psutil.CONN_LISTEN:
            listeners.append(replace(_holder(one.laddr.ip, one.pid), hosts_store=_hosts_store(one.pid)))
        elif one.raddr and one.status in _OF_A_PROCESS:
            peer = endpoint(one.raddr.ip, one.raddr.port)
            connections.append(replace(_holder(one.laddr.ip, one.pid), peer=peer))
    return tuple(dict.fromkeys(listeners or connections))[:HOLDERS]


def _holder(address: str, pid: int | None) -> PortHolder:
    if pid is None:
        return PortHolder(address)
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            return PortHolder(address, process.pid, process.name(), process.username())
    except psutil.Error:
        return PortHolder(address, pid)


def refused_bind(port: int) -> int:
    """The errno with which the kernel keeps a TCPStore from ``port`` of every address, 0 where it can have it.

    Bound as torch does (dual-stack, else IPv4; with SO_REUSEADDR, so that connections that are closing do not count),
    and not listened on: nobody who connects meanwhile sees it.
    """
    number = 0
    for family in (socket.AF_INET6, socket.AF_INET):
        try:
            with socket.socket(family) as probe_socket:
                if family == socket.AF_INET6:
                    probe_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                probe_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe_socket.bind(("", port))
            return 0
        except OSError as err:
            number = err.errno or 0
    return number


def _hosts_store(pid: int | None) -> bool:
    """Whether a thread of the process serves a TCPStore: since 2.6 torch names it (TCPStoreBackend.cpp)."""
    names = [] if pid is None else Path(f"/proc/{pid}/task").glob("*/comm")
    with contextlib.suppress(OSError):
        return any(one.read_bytes().startswith(b"pt_tcpstore") for one in names)
    return False


def free_port(above: int) -> int | None:
    """The first port above ``above`` on which a listener can be bound on every address, or None within 100."""
    for port in range(above + 1, min(above + 101, 65536)):
        try:
            with socket.socket(socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET) as probe_socket:
                if probe_socket.family == socket.AF_INET6:
                    probe_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                probe_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe_socket.bind(("", port))
                probe_socket.listen(1)
            return port
        except OSError:
            continue
    return None
