"""iptables' rules, as ``iptables-save`` prints them: the chains that can block."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal

from distdoctor.knowledge.firewall.packet import ALL_BITS, Packet, Rule, Verdict, mark_of, passes, shut
from distdoctor.knowledge.firewall.packet_filter import BadRuleset, Direction, FilterHook
from distdoctor.model.facts import FirewallChain, PacketMark, ShutPort

INTO = ("PREROUTING", "INPUT")
"""The built-in chains on the way into this host."""
_LIMIT = re.compile(r"(?<!! )--(?:limit|hashlimit-upto|hashlimit|connlimit-upto) |! --(?:connlimit|hashlimit)-above ")
"""Of a rule that accepts: only so many connections."""
_BUILT_IN: dict[str, FilterHook] = {
    "PREROUTING": "input",
    "INPUT": "input",
    "OUTPUT": "output",
    "POSTROUTING": "output",
}


def parse_iptables(text: str, tool: Literal["iptables", "ip6tables"]) -> tuple[FirewallChain, ...]:
    """The base chains that can block, out of ``iptables-legacy-save`` (or ip6tables'). Raises BadRuleset."""
    family = "ip" if tool == "iptables" else "ip6"
    found: list[FirewallChain] = []
    for table, policies, rules in iptables_tables(text):
        if table not in ("filter", "raw", "mangle", "nat"):
            continue
        for chain, policy in policies.items():
            if chain not in _BUILT_IN:
                continue
            blocks = _translates if table == "nat" else _blocks
            blocking = tuple(rule for rule in _iptables_ending(chain, rules, policies, blocks) if _for_us(chain, rule))
            if blocking or policy == "DROP":
                hook = _BUILT_IN[chain]
                limited = tuple(_iptables_ending(chain, rules, policies, _limits))
                found.append(FirewallChain(tool, family, table, chain, hook, policy.lower(), blocking, limited))
    return tuple(found)


def iptables_proxied(text: str) -> tuple[str, ...]:
    """The rules, out of the same, by which a port of this host gets what it sends to all ports. Raises BadRuleset."""
    return tuple(
        f"iptables -t nat -A OUTPUT {rule}"
        for table, policies, rules in iptables_tables(text)
        if table == "nat"
        for rule in _iptables_ending("OUTPUT", rules, policies, lambda target, _: target == "REDIRECT")
        if not re.search(r"--dports? \d|--dst-type LOCAL|-d 127\.", rule)
    )


# -- iptables -------------------------------------------------------------------------------------------------------


def iptables_tables(text: str) -> Iterable[tuple[str, dict[str, str], dict[str, list[str]]]]:
    """(table, chain -> policy, chain -> its rules) for each table. Raises BadRuleset."""
    table, policies, rules = "", dict[str, str](), dict[str, list[str]]()
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if line.startswith("*"):
            table, policies, rules = line[1:], {}, {}
        elif match := re.match(r":(\S+)\s+(\S+)", line):
            policies[match[1]] = match[2]
        elif match := re.match(r"(?:\[\d+:\d+\]\s+)?-A (\S+)\s*(.*)", line):
            rules.setdefault(match[1], []).append(match[2])
        elif line == "COMMIT":
            yield table, policies, rules
        elif line and not line.startswith("#"):
            raise BadRuleset(f"iptables-save, line {number}: {line[:80]!r}")


def rule_parts(
    words: Sequence[str], unknown: Callable[[str], bool], holds: Callable[[str, str], bool | None]
) -> tuple[list[bool | None], dict[str, str]]:
    """Return whether each part of a rule holds, None where that is not known; and each flag with its last value.

    ``unknown`` says it of a flag alone, ``holds`` of a flag and its value, which a ``!`` before them turns round.
    """
    held: list[bool | None] = []
    values: dict[str, str] = {}
    inverted, flag = False, ""
    for word in words:
        if word == "!":
            inverted = True
        elif word.startswith("-"):
            flag = word
            values.setdefault(flag, "")
            if unknown(flag):
                held.append(None)
        else:
            values[flag] = word
            one = holds(flag, word)
            held.append(one if one is None else one is not inverted)
            inverted = False
    return held, values


def names_port(value: str, port: int) -> bool:
    """Return whether ports as ``--dport`` or ``--dports`` has them (22,80:90) have this one among them."""
    ranges = re.findall(r"(\d+)(?::(\d+))?", value)
    return any(int(low) <= port <= int(high or low) for low, high in ranges)


def _iptables_ending(
    chain: str,
    rules: dict[str, list[str]],
    policies: dict[str, str],
    ends: Callable[[str, str], bool],
    above: tuple[str, ...] = (),
) -> Iterable[str]:
    """The rules of a chain, and of those that it leads to, for which ``ends`` holds by their target and text."""
    for rule in rules.get(chain, []):
        target = re.search(r"(?:-j|-g) (\S+)", rule)
        if target is None or _iptables_harmless(rule):
            continue
        if ends(target[1], rule):
            yield rule
        elif target[1] in policies and target[1] != chain and target[1] not in above:
            for inner in _iptables_ending(target[1], rules, policies, ends, (*above, chain)):
                yield f"{rule} > {inner}"


def _blocks(target: str, rule: str) -> bool:
    # A program is asked: without one that listens the packet is dropped (iptables-extensions(8), NFQUEUE).
    return target in ("DROP", "REJECT") or (target == "NFQUEUE" and "--queue-bypass" not in rule)


def _translates(target: str, rule: str) -> bool:
    """Return what nft's rules of the same kinds do: see there."""
    return target in ("DNAT", "REDIRECT", "SNAT")


def _for_us(chain: str, rule: str) -> bool:
    """Return whether a rule that translates is one for a port of this host, or for what it sends to others; true of
    others."""
    if not re.search(r"-j (?:DNAT|REDIRECT|SNAT)\b", rule):
        return True
    if chain == "POSTROUTING":
        return not re.search(r"(?:^|\s)-[si] ", rule)
    own = chain == "OUTPUT" and re.search(r"--dst-type LOCAL|-d 127\.", rule) is not None
    return re.search(r"--dports? \d", rule) is not None and not own


def _limits(target: str, rule: str) -> bool:
    return target in ("ACCEPT", "RETURN") and _LIMIT.search(rule) is not None


def _iptables_harmless(rule: str) -> bool:
    protocol = re.search(r"(?<!! )-p (\S+)", rule)
    if protocol and protocol[1] not in ("tcp", "all"):
        return True
    return bool(re.search(r"(?<!! )-[io] lo\b|(?<!! )--(?:ct)?state (?:INVALID|UNTRACKED)\b(?!,)", rule))


# iptables' rules as a new TCP connection of another host meets them, out of ``iptables-save``. Pure.


INERT = {"LOG", "NFLOG", "MARK", "CONNMARK", "CT", "TRACE", "TCPMSS"}
"""Targets after which the next rule is looked at."""
_MODULES = {"tcp", "conntrack", "state", "multiport", "comment"}
_ADDRESSES, _INTERFACES = {"-s": "saddr", "-d": "daddr"}, {"-i": "in", "-o": "out"}
_PORTS = {"--dport": "dport", "--dports": "dport", "--sport": "sport", "--sports": "sport"}
_STATES = {"--ctstate", "--state"}
_MARKS = {"--set-xmark", "--restore-mark", "--nfmask", "--ctmask"}
_OTHERS = {"-p", "-m", "-j", "-g", "--tcp-flags", "--reject-with", *_MARKS}
_KNOWN = {*_ADDRESSES, *_INTERFACES, *_PORTS, *_STATES, *_OTHERS}
OUT_OF = ("OUTPUT", "POSTROUTING")
"""The built-in chains on the way out of this host."""
_UNKNOWN = (0, 0)
"""In place of a mark that is not known."""
_FLAGS = re.compile(r"(--tcp-flags \S+) (\S+)")
"""Which flags are looked at, and which of them are to be set."""

_COMMENT = re.compile(r'--comment (?:"(?:[^"\\]|\\.)*"|\S+)')
"""It may look like anything."""


def iptables_shut(text: str, tool: Literal["iptables", "ip6tables"], port: int) -> tuple[ShutPort, ...]:
    """The built-in chains that let no new connection of another host in to ``port``. Raises BadRuleset."""
    return tuple(_shut(text, tool, port))


def iptables_passes(text: str, packet: Packet) -> bool:
    """Return whether the built-in chains let the packet through for certain. Raises BadRuleset."""
    for name, policy, lines in _met_by(text, replace(packet, other=None)):
        chains = {
            chain: [_rule(one, packet) if isinstance(one, str) else one for one in its] for chain, its in lines.items()
        }
        if not passes(name, chains, policy):
            return False
    return True


def iptables_marks(
    text: str, tool: Literal["iptables", "ip6tables"], port: int, interface: str | None
) -> tuple[PacketMark, ...]:
    """The marks of what this host sends to and from ``port``, as ``nft_marks`` tells them. Raises BadRuleset."""
    found, sides = list[PacketMark](), tuple[Direction, ...](("dport", "sport"))
    for table, policies, rules in iptables_tables(text):
        for side in sides if table == "mangle" and "OUTPUT" in policies else ():
            packet = Packet(port, "out", side == "sport", interface=interface)
            chains = {name: [_rule(line, packet) for line in rules.get(name, ())] for name in policies}
            mark = mark_of([("OUTPUT", chains)])
            if mark is not None and mark[0]:
                where = f"{tool} mangle OUTPUT"
                found.append(PacketMark(port, side, 4 if tool == "iptables" else 6, mark[0], f"{where}: {mark[1]}"))
    return tuple(found)


@lru_cache(maxsize=64)
def _met_by(text: str, packet: Packet) -> list[tuple[str, str, dict[str, list[Rule | str]]]]:
    """Each built-in chain that a packet meets, with its policy and its table's rules, as text where they go by the
    other address, which is not known here: read once for all addresses."""
    found = []
    for table, policies, rules in iptables_tables(text):
        lines = {name: list(_lines(rules.get(name, ()), packet)) for name in policies}
        for name in INTO if packet.way == "in" else OUT_OF:
            translated = table == "nat" and (packet.reply or name == "POSTROUTING")  # the source only, or not asked
            if name in lines and not translated:
                found.append((name, policies[name].lower(), lines))
    return found


def _lines(lines: Iterable[str], packet: Packet) -> Iterator[Rule | str]:
    for line in lines:
        rule = _rule(line, packet)
        if rule.matches is not False:
            yield line if rule.matches is None and any(f"{flag} " in line for flag in _ADDRESSES) else rule


def _shut(text: str, tool: str, port: int) -> Iterator[ShutPort]:
    for table, policies, rules in iptables_tables(text):
        if table not in ("filter", "raw", "mangle"):
            continue
        chains = {name: [_rule(line, Packet(port)) for line in rules.get(name, ())] for name in policies}
        for name in INTO:
            end = shut(name, chains, policies[name].lower()) if name in chains else None
            if end is not None:
                yield ShutPort(port, 4 if tool == "iptables" else 6, end.how, f"{tool} {table} {name}: {end.text}")


def _rule(line: str, packet: Packet) -> Rule:
    words = _words(line)
    if words is None:
        return Rule(None, "elsewhere", line)
    verdict, target = _verdict(words)
    matches, mark = _matches(words, packet), _mark(words)
    return Rule(None if mark == _UNKNOWN and matches else matches, verdict, line, target, mark)


@lru_cache(maxsize=4096)
def _words(line: str) -> list[str] | None:
    try:
        return shlex.split(_FLAGS.sub(r"\1/\2", _COMMENT.sub("", line)))
    except ValueError:
        return None


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
        if target in INERT:
            return "", ""
        return ("jump" if flag == "-j" else "goto"), target
    return "", ""


def _mark(words: list[str]) -> tuple[int, int] | None:
    """Return what a rule makes of the packet's mark, as ``Rule.mark``; None: it leaves it as it is."""
    if "CONNMARK" in words:
        return _UNKNOWN if "--restore-mark" in words else None
    if "MARK" not in words:
        return None
    try:
        value, _, mask = words[words.index("--set-xmark") + 1].partition("/")
        return ALL_BITS & ~int(mask or "0xffffffff", 16), int(value, 16)
    except (ValueError, IndexError):
        return _UNKNOWN


def _matches(words: list[str], packet: Packet) -> bool | None:
    """Return whether the rule is one for the packet; None where that is not known."""
    held, _ = rule_parts(words, lambda flag: flag not in _KNOWN, lambda flag, value: _holds(flag, value, packet))
    return False if False in held else None if None in held else True


def _holds(flag: str, value: str, packet: Packet) -> bool | None:
    if flag == "-p":
        return value in ("tcp", "all", "6")
    if flag in _INTERFACES:
        return packet.goes_by(_INTERFACES[flag], value.replace("+", "*"))
    if flag in _ADDRESSES:
        return packet.is_of(_ADDRESSES[flag], value)
    if flag in _PORTS:
        return packet.has_port(_PORTS[flag], lambda port: names_port(value, port))
    if flag in _STATES:
        return packet.state in value.lower().split(",")
    if flag == "--tcp-flags":
        seen, wanted = value.split("/")
        # Of what answers, the first has ACK besides, and the others ACK alone.
        named = {"SYN", "ALL"} & {*seen.split(",")}
        return None if packet.reply else wanted == ("SYN" if named else "NONE")
    if flag == "-m":
        return True if value in _MODULES else None
    return True if flag in ("-j", "-g", "--reject-with", *_MARKS) else None
