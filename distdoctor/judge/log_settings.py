"""What it may be by what NCCL said of itself: where its versions differ, or a network that others lack. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_ALONE = re.compile(r"^(?:lo|docker\d*|br-\w+|virbr\d*|veth\w*|cni\d*|flannel\S*|tailscale\d*|tun\d*)\b")
"""Interfaces behind which there is only this host, or a network of its own."""


def suspicions(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The check, and why; worth naming only where something failed."""
    versions = settings.get("NCCL version", "")
    if "; " in versions:
        yield "environment/version-mismatch", f"the ranks have different versions of NCCL: {versions}"
    interfaces = settings.get("interface", "").split("; ")
    alone = [one for one in interfaces if _ALONE.match(one)]
    others = [one for one in interfaces if one not in alone]
    if alone and (others or not alone[0].startswith("lo")):
        elsewhere = f", elsewhere {'; '.join(others)}" if others else ""
        yield "network/wrong-interface", f"NCCL uses {'; '.join(alone)}{elsewhere}"
