"""The packet filter of this host."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from distdoctor.knowledge.iptables import parse_iptables
from distdoctor.knowledge.iptables_connection import iptables_shut
from distdoctor.knowledge.iptables_marks import iptables_marks
from distdoctor.knowledge.nft_connection import nft_shut, opaque
from distdoctor.knowledge.nft_marks import nft_marks
from distdoctor.knowledge.nftables import parse_nft_json
from distdoctor.knowledge.open_ports import open_ranges
from distdoctor.model.facts import Firewall, FirewallChain, PacketMark, ShutPort

READ_SECONDS = 3.0
NFT = ("nft", "-j", "list", "ruleset")
_HANDLE = re.compile(r'"handle":\s*\d+')
IPTABLES: tuple[Literal["iptables", "ip6tables"], ...] = ("iptables", "ip6tables")


Shutting = Callable[[int], Iterable[ShutPort]]
"""What shuts a port, of one ruleset."""


def firewall(port: int, picked: tuple[int, int] | None = None, interface: str | None = None) -> Firewall:
    """The chains of this host that can block packets on their way in or out, where this user may read them, those that
    shut ``port``, what is open where they shut ports of ``picked``, the range that the kernel picks from, and the marks
    of what goes to or comes from ``port``. ``interface``: the only one by which others are reached, where it is."""
    if os.geteuid() != 0:
        return Firewall(False, "only root may read the firewall's rules")
    chains: list[FirewallChain] = []
    read: list[tuple[str, Shutting]] = []
    marks: list[PacketMark] = []
    if (ruleset := _said(*NFT)) is not None:
        try:
            chains += parse_nft_json(ruleset)
            read += _nft_shutting(ruleset)
            marks += _nft_marks(ruleset, port, interface)
        except ValueError:
            pass
    for tool in IPTABLES:
        if (saved := _said(f"{tool}-legacy-save")) is not None:
            try:
                chains += parse_iptables(saved, tool)
                read.append((saved, _iptables_shutting(saved, tool)))
                marks += iptables_marks(saved, tool, port, interface)
            except ValueError:
                pass
    if not read:
        return Firewall(False, "neither nft nor iptables can be run here")

    def shutting(number: int) -> tuple[ShutPort, ...]:
        return tuple(one for _, shuts in read for one in shuts(number))

    def shuts(number: int) -> bool:
        return any(one.version == 4 for one in shutting(number))

    try:
        open_ports: tuple[tuple[int, int], ...] = ()
        if picked is not None and any(map(shuts, (picked[0], sum(picked) // 2, picked[1]))):
            open_ports = open_ranges(" ".join(text for text, _ in read), shuts)
        return Firewall(True, chains=tuple(chains), shut=shutting(port), open_ports=open_ports, marks=tuple(marks))
    except ValueError:
        return Firewall(True, chains=tuple(chains))


def _nft_shutting(ruleset: str) -> Iterator[tuple[str, Shutting]]:
    """Of tables in which iptables' modules are at work nft does not tell what they match; iptables-nft does."""
    if not opaque(ruleset):
        yield _HANDLE.sub("", ruleset), lambda port: nft_shut(ruleset, port)
        return
    other = (("ip", "filter"), ("ip6", "filter"))
    yield _HANDLE.sub("", ruleset), lambda port: nft_shut(ruleset, port, but=other)
    for tool in IPTABLES:
        if (saved := _said(f"{tool}-nft-save", "-t", "filter")) is not None:
            yield saved, _iptables_shutting(saved, tool)


def _nft_marks(ruleset: str, port: int, interface: str | None) -> tuple[PacketMark, ...]:
    if not opaque(ruleset):
        return nft_marks(ruleset, port, interface)
    saved = [(tool, _said(f"{tool}-nft-save", "-t", "mangle")) for tool in IPTABLES]
    return tuple(one for tool, text in saved if text is not None for one in iptables_marks(text, tool, port, interface))


def _iptables_shutting(saved: str, tool: Literal["iptables", "ip6tables"]) -> Shutting:
    return lambda port: iptables_shut(saved, tool, port)


def _said(*command: str) -> str | None:
    """What a command prints; None where it is not there, fails, or takes too long."""
    path = shutil.which(command[0])
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, *command[1:]],
            capture_output=True,
            text=True,
            errors="backslashreplace",
            check=False,
            timeout=READ_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
