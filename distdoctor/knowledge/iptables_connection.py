"""iptables' rules as a new TCP connection of another host meets them, out of ``iptables-save``. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Literal

from distdoctor.knowledge.iptables import INTO, iptables_tables, names_port, rule_parts
from distdoctor.knowledge.new_connection import Rule, Source, Verdict, came_by, came_from, passes, shut
from distdoctor.model.facts import ShutPort

_INERT = {"LOG", "NFLOG", "MARK", "CONNMARK", "CT", "TRACE", "TCPMSS"}
_MODULES = {"tcp", "conntrack", "state", "multiport", "comment"}
_KNOWN = {
    "-p",
    "-m",
    "-j",
    "-g",
    "-i",
    "-s",
    "--dport",
    "--dports",
    "--tcp-flags",
    "--ctstate",
    "--state",
    "--reject-with",
}
_FLAGS = re.compile(r"(--tcp-flags \S+) (\S+)")
"""Which flags are looked at, and which of them are to be set."""

_COMMENT = re.compile(r'--comment (?:"(?:[^"\\]|\\.)*"|\S+)')
"""It may look like anything."""


def iptables_shut(text: str, tool: Literal["iptables", "ip6tables"], port: int) -> tuple[ShutPort, ...]:
    """The built-in chains that let no new connection of another host in to ``port``. Raises BadRuleset."""
    return tuple(_shut(text, tool, port))


def iptables_lets_in(text: str, source: Source, port: int) -> bool:
    """Whether the built-in chains let a new connection of ``source`` in to ``port`` for certain. Raises BadRuleset."""
    for _, policies, rules in iptables_tables(text):
        chains = {name: [_rule(line, port, source) for line in rules.get(name, ())] for name in policies}
        if not all(passes(name, chains, policies[name].lower()) for name in INTO if name in chains):
            return False
    return True


def _shut(text: str, tool: str, port: int) -> Iterator[ShutPort]:
    for table, policies, rules in iptables_tables(text):
        if table not in ("filter", "raw", "mangle"):
            continue
        chains = {name: [_rule(line, port) for line in rules.get(name, ())] for name in policies}
        for name in INTO:
            end = shut(name, chains, policies[name].lower()) if name in chains else None
            if end is not None:
                yield ShutPort(port, 4 if tool == "iptables" else 6, end.how, f"{tool} {table} {name}: {end.text}")


def _rule(line: str, port: int, source: Source | None = None) -> Rule:
    try:
        words = shlex.split(_FLAGS.sub(r"\1/\2", _COMMENT.sub("", line)))
    except ValueError:
        return Rule(None, "elsewhere", line)
    verdict, target = _verdict(words)
    return Rule(_matches(words, port, source), verdict, line, target)


def _verdict(words: list[str]) -> tuple[Verdict, str]:
    for flag in ("-j", "-g"):
        if flag not in words[:-1]:
            continue
        target = words[words.index(flag) + 1]
        if target == "REJECT":
            return ("reset" if "tcp-reset" in words else "reject"), ""
        if target in ("ACCEPT", "DROP", "RETURN"):
            verdicts: dict[str, Verdict] = {"ACCEPT": "accept", "DROP": "drop", "RETURN": "return"}
            return verdicts[target], ""
        if target in _INERT:
            return "", ""
        return ("jump" if flag == "-j" else "goto"), target
    return "", ""


def _matches(words: list[str], port: int, source: Source | None) -> bool | None:
    """Whether the rule is one for a SYN from another host to ``port``; None where that is not known."""
    held, _ = rule_parts(words, lambda flag: flag not in _KNOWN, lambda flag, value: _holds(flag, value, port, source))
    return False if False in held else None if None in held else True


def _holds(flag: str, value: str, port: int, source: Source | None) -> bool | None:
    if flag == "-p":
        return value in ("tcp", "all", "6")
    if flag == "-i":
        return False if value == "lo" else came_by(source, value.replace("+", "*"))
    if flag == "-s":
        return came_from(source, value)
    if flag == "--tcp-flags":
        seen, wanted = value.split("/")
        return wanted == ("SYN" if {"SYN", "ALL"} & {*seen.split(",")} else "NONE")
    if flag in ("--dport", "--dports"):
        return names_port(value, port)
    if flag in ("--ctstate", "--state"):
        return "NEW" in value.split(",")
    if flag == "-m":
        return True if value in _MODULES else None
    return True if flag in ("-j", "-g", "--reject-with") else None
