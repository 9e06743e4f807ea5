"""The packet filter of this host."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Literal

from distdoctor.knowledge.iptables import parse_iptables
from distdoctor.knowledge.iptables_connection import iptables_shut
from distdoctor.knowledge.nft_connection import nft_shut, opaque
from distdoctor.knowledge.nftables import parse_nft_json
from distdoctor.model.facts import Firewall, FirewallChain, ShutPort

READ_SECONDS = 3.0
NFT = ("nft", "-j", "list", "ruleset")
IPTABLES: tuple[Literal["iptables", "ip6tables"], ...] = ("iptables", "ip6tables")


def firewall(port: int) -> Firewall:
    """The chains of this host that can block packets on their way in or out, where this user may read them, and those
    that shut ``port``."""
    if os.geteuid() != 0:
        return Firewall(False, "only root may read the firewall's rules")
    chains: list[FirewallChain] = []
    shut: list[ShutPort] = []
    seen = False
    if (ruleset := _said(*NFT)) is not None:
        try:
            chains += parse_nft_json(ruleset)
            shut += _nft_shut(ruleset, port)
            seen = True
        except ValueError:
            pass
    for tool in IPTABLES:
        if (saved := _said(f"{tool}-legacy-save")) is not None:
            try:
                chains += parse_iptables(saved, tool)
                shut += iptables_shut(saved, tool, port)
                seen = True
            except ValueError:
                pass
    if not seen:
        return Firewall(False, "neither nft nor iptables can be run here")
    return Firewall(True, chains=tuple(chains), shut=tuple(shut))


def _nft_shut(ruleset: str, port: int) -> Iterator[ShutPort]:
    """Of tables in which iptables' modules are at work nft does not tell what they match; iptables-nft does."""
    if not opaque(ruleset):
        yield from nft_shut(ruleset, port)
        return
    yield from nft_shut(ruleset, port, but=(("ip", "filter"), ("ip6", "filter")))
    for tool in IPTABLES:
        if (saved := _said(f"{tool}-nft-save", "-t", "filter")) is not None:
            yield from iptables_shut(saved, tool, port)


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
