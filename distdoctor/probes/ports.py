"""Ports of this host: who holds one, which can be bound, and the packet filter in front of them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess

import psutil

from distdoctor.facts import Firewall, FirewallChain, PortHolder
from distdoctor.firewall import parse_iptables, parse_nft_json

READ_SECONDS = 3.0


def holders(port: int) -> tuple[PortHolder, ...]:
    """The processes that listen on TCP ``port`` here. Without root, another user's process shows with pid None."""
    found = []
    for connection in psutil.net_connections(kind="tcp"):
        if connection.status != psutil.CONN_LISTEN or not connection.laddr or connection.laddr.port != port:
            continue
        address = connection.laddr.ip
        if connection.pid is None:
            found.append(PortHolder(address))
            continue
        try:
            process = psutil.Process(connection.pid)
            with process.oneshot():
                found.append(PortHolder(address, process.pid, process.name(), process.username()))
        except psutil.Error:
            found.append(PortHolder(address, connection.pid))
    return tuple(dict.fromkeys(found))


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


def firewall() -> Firewall:
    """The chains of this host that can block packets on their way in or out, where this user may read them."""
    if os.geteuid() != 0:
        return Firewall(False, "only root may read the firewall's rules")
    chains: list[FirewallChain] = []
    seen = False
    for command, parse in (
        (("nft", "-j", "list", "ruleset"), parse_nft_json),
        (("iptables-legacy-save",), lambda text: parse_iptables(text, "iptables")),
        (("ip6tables-legacy-save",), lambda text: parse_iptables(text, "ip6tables")),
    ):
        path = shutil.which(command[0])
        if path is None:
            continue
        try:
            done = subprocess.run(
                [path, *command[1:]],
                capture_output=True,
                text=True,
                errors="backslashreplace",
                check=False,
                timeout=READ_SECONDS,
            )
            if done.returncode == 0:
                chains.extend(parse(done.stdout))
                seen = True
        except (OSError, subprocess.TimeoutExpired, ValueError):
            continue
    return Firewall(True, chains=tuple(chains)) if seen else Firewall(False, "neither nft nor iptables can be run here")
