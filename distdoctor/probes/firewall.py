"""The packet filter of this host."""

from __future__ import annotations

import os
import shutil
import subprocess

from distdoctor.knowledge.iptables import parse_iptables
from distdoctor.knowledge.nftables import parse_nft_json
from distdoctor.model.facts import Firewall, FirewallChain

READ_SECONDS = 3.0


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
