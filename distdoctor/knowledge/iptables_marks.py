"""The marks of iptables' rules, out of ``iptables-save``. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

from distdoctor.knowledge.iptables import INTO, iptables_tables, names_port, rule_parts
from distdoctor.knowledge.marks import ALL, Chains, Change, Step, Way, all_of, both_ways, by_interface
from distdoctor.model.facts import PacketMark


def iptables_marks(
    text: str, tool: Literal["iptables", "ip6tables"], port: int, interface: str | None
) -> tuple[PacketMark, ...]:
    """What iptables' rules mark, as ``iptables-save`` prints them. Raises BadRuleset."""
    found: list[PacketMark] = []
    for table, policies, rules in iptables_tables(text):
        if table != "mangle":
            continue

        into, out = (partial(_bases, policies, rules, names) for names in (INTO, ("OUTPUT",)))
        version = 4 if tool == "iptables" else 6
        found += both_ways(into, out, port, interface, version, f"{tool} mangle OUTPUT")
    return tuple(found)


def _bases(
    policies: Mapping[str, str], rules: Mapping[str, list[str]], names: Sequence[str], way: Way
) -> list[tuple[Chains, str]]:
    steps = {name: [_line(line, way) for line in rules.get(name, ())] for name in policies}
    return [(steps, name) for name in names]


def _line(line: str, way: Way) -> Step:
    try:
        words = shlex.split(line)
    except ValueError:
        return Step(None, verdict="unknown", text=line)
    held, options = rule_parts(
        words, lambda flag: flag in ("--tcp-flags", "--syn"), lambda flag, value: _holds(flag, value, way)
    )
    target = options.get("-j", options.get("-g", ""))
    if target in ("MARK", "CONNMARK"):
        try:
            change = _iptables_change(target, options)
        except ValueError:  # no number where a mark or its mask stands
            change = None
        return Step(all_of(held), (change,) if change else (), "" if change else "unknown", text=line)
    if target in ("ACCEPT", "DROP", "RETURN"):
        return Step(all_of(held), verdict=target.lower(), text=line)
    if target in ("", "LOG", "NFLOG", "TRACE", "TCPMSS", "DSCP", "TOS", "CHECKSUM"):
        return Step(all_of(held), text=line)
    return Step(all_of(held), verdict="jump" if "-j" in options else "goto", target=target, text=line)


def _holds(flag: str, value: str, way: Way) -> bool | None:
    if flag == "-p":
        return value in ("tcp", "all", "6")
    if flag in ("-i", "-o"):
        return by_interface([value], way)
    if flag in ("--dport", "--dports", "--sport", "--sports"):
        if flag[2:7] != way.side:
            return None if ":" in value else False
        return names_port(value, way.port)
    if flag in ("--ctstate", "--state"):
        return ("NEW" if way.new else "ESTABLISHED") in value.split(",")
    if flag == "-m":
        return True if value in ("tcp", "conntrack", "state", "multiport", "comment") else None
    known = ("-j", "-g", "--comment", "--set-xmark", "--nfmask", "--ctmask", "--log-prefix", "--log-level")
    return True if flag in known else None


def _iptables_change(target: str, options: Mapping[str, str]) -> Change | None:
    of: Literal["packet", "connection"] = "packet" if target == "MARK" else "connection"
    packets, connections = (int(options.get(flag, "0xffffffff"), 16) for flag in ("--nfmask", "--ctmask"))
    if "--set-xmark" in options:
        value, _, mask = options["--set-xmark"].partition("/")
        return Change(of, ALL & ~int(mask or "0xffffffff", 16), int(value, 16))
    if "--restore-mark" in options:
        return Change("packet", ALL & ~packets, "connection", connections)
    if "--save-mark" in options:
        return Change("connection", ALL & ~connections, "packet", packets)
    return None
