"""Which addresses a packet filter lets in for certain. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from functools import lru_cache

MOST_CELLS = 64
"""Ranges of addresses between those that a ruleset names, beyond which they are not looked at one by one."""
_NAMED = re.compile(r'([0-9a-fA-F:.]*[:.][0-9a-fA-F:.]*)(?:/(\d{1,3})|",\s*"len":\s*(\d{1,3}))?')
"""An address or a network, as iptables-save or nft's JSON has it."""


def open_sources(ruleset: str, version: int, lets_in: Callable[[str], bool]) -> tuple[tuple[str, str], ...]:
    """The ranges of addresses of IP ``version`` that ``lets_in`` says are let in: it changes only at what the ruleset
    names. Empty where it names too much."""
    family = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
    last = (1 << (32 if version == 4 else 128)) - 1
    starts = sorted({0, *(start for start in _starts(ruleset, version) if start <= last)})
    if len(starts) > MOST_CELLS:
        return ()
    ranges: list[tuple[int, int]] = []
    for start, after in zip(starts, [*starts[1:], last + 1], strict=True):
        if not lets_in(str(family(start))):
            continue
        if ranges and ranges[-1][1] == start - 1:
            ranges[-1] = (ranges[-1][0], after - 1)
        else:
            ranges.append((start, after - 1))
    return tuple((str(family(one)), str(family(other))) for one, other in ranges)


@lru_cache(maxsize=4)
def _starts(ruleset: str, version: int) -> tuple[int, ...]:
    return tuple(_ends(ruleset, version))


def _ends(ruleset: str, version: int) -> Iterator[int]:
    """The first address of each network that is named, and the one after its last."""
    for found in {(one[1], one[2] or one[3]) for one in _NAMED.finditer(ruleset)}:
        try:
            network = ipaddress.ip_network("/".join(filter(None, found)), strict=False)
        except ValueError:
            continue
        if network.version == version:
            yield int(network.network_address)
            yield int(network.broadcast_address) + 1
