"""Fixes that only root can carry out, where the job's user is not root."""

from __future__ import annotations

import re
from dataclasses import replace

from distdoctor.model.cluster import Cluster
from distdoctor.model.findings import Fix

ROOT = "root"
NEEDS_ROOT = re.compile(
    r"^(?:ip (?:-\d )?(?:address|link|neighbour|route|rule) (?:add|del|flush|replace|set)|sysctl -w|nft |ip6?tables|"
    r"firewall-cmd|u?mount|chmod \S+ /(?:etc|dev)/|timedatectl set|chronyc|apt-get install|modprobe |"
    r"systemctl (?:enable|start|stop|restart)|sed -i \S+ /etc/|"
    r"nvidia-smi (?:-i \S+ )?(?:-pl|-pm|-c|-mig|--gpu-reset)\b)|>>? ?/etc/"
)


def with_root(fix: Fix, cluster: Cluster) -> Fix:
    """The fix, whose text says so where one of its commands needs root and who ran the check there was another user."""
    nodes = [node for node in cluster.nodes if node.name in fix.nodes] if fix.nodes else cluster.nodes
    if ROOT in fix.text or not any(map(NEEDS_ROOT.search, fix.commands)):
        return fix
    if not any(node.identity.user not in ("", ROOT) for node in nodes):
        return fix
    return replace(fix, text=f"{fix.text[:-1]}, as root." if fix.text.endswith(".") else f"{fix.text} (as root)")
