"""Rules that take packets from connection tracking, or have those of one connection tracked apart: what answers a
connection is not known to be of it, then (nft(8), notrack; iptables-extensions(8), CT). Pure."""

from __future__ import annotations

import re

_UNTRACKED = re.compile(r'notrack|--zone|"zone"|"name":\s?"CT"', re.IGNORECASE)
_RULES = re.compile(r'\n|(?=\{"rule")')
"""Between the rules, of iptables-save and of ``nft --json``."""
_UDP = re.compile(r'-p (?:udp|17) |"protocol":\s?"udp"|"l4proto"\}\},\s?"right":\s?"udp"')
_PORT = re.compile(r'--[ds]port (\d{1,5})(?![\d:])|"[ds]port"\}\},\s?"right":\s?(\d{1,5})\b')
_NOT = re.compile(r'! |"!="')


def untracks(text: str, port: int, picked: tuple[int, int] | None) -> bool:
    """Whether one of a ruleset's rules may do so with what goes to or comes from ``port``, or one of those that the
    kernel picks: not those for UDP, nor for one other port, as of a node's own server of names."""
    first, last = picked or (port, port)

    def for_others(rule: str) -> bool:
        ports = (int(found[1] or found[2]) for found in _PORT.finditer(rule))
        others = any(number != port and not first <= number <= last for number in ports)
        return not _NOT.search(rule) and (others or bool(_UDP.search(rule)))

    return any(_UNTRACKED.search(rule) and not for_others(rule) for rule in _RULES.split(text))
