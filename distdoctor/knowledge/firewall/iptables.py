"""Rules of iptables, from ``iptables-save``: chains that can block, and their verdict on a new TCP connection."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal

from distdoctor.knowledge.firewall.packet import ALL_BITS, FilteredPacket, Rule, Verdict, mark_of, passes, shut
from distdoctor.knowledge.firewall.packet_filter import BadRuleset, Direction, FilterHook
from distdoctor.model.facts import FirewallChain, PacketMark, ShutPort

INTO = ("PREROUTING", "INPUT")
"""Built-in chains for packets into this host."""
_LIMIT = re.compile(r"(?<!! )--(?:limit|hashlimit-upto|hashlimit|connlimit-upto) |! --(?:connlimit|hashlimit)-above ")
"""Rate or connection limit of an accepting rule."""
_BUILT_IN: dict[str, FilterHook] = {
    "PREROUTING": "input",
    "INPUT": "input",
    "OUTPUT": "output",
    "POSTROUTING": "output",
}


def parse_iptables(text: str, tool: Literal["iptables", "ip6tables"]) -> tuple[FirewallChain, ...]:
    """Return the base chains that can block, from ``iptables-legacy-save`` (or ip6tables'). Raises BadRuleset."""
    family = "ip" if tool == "iptables" else "ip6"
    chains: list[FirewallChain] = []
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
                chains.append(FirewallChain(tool, family, table, chain, hook, policy.lower(), blocking, limited))
    return tuple(chains)


def iptables_proxied(text: str) -> tuple[str, ...]:
    """Return the rules that redirect what this host sends to all ports to a port of its own. Raises BadRuleset."""
    return tuple(
        f"iptables -t nat -A OUTPUT {rule}"
        for table, policies, rules in iptables_tables(text)
        if table == "nat"
        for rule in _iptables_ending("OUTPUT", rules, policies, lambda target, _: target == "REDIRECT")
        if not re.search(r"--dports? \d|--dst-type LOCAL|-d 127\.", rule)
    )


# -- iptables -------------------------------------------------------------------------------------------------------


def iptables_tables(text: str) -> Iterable[tuple[str, dict[str, str], dict[str, list[str]]]]:
    """Yield each table's name, the policy of each chain, and the rules of each chain. Raises BadRuleset."""
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
    """Return for each part of a rule whether it holds (None: unknown), and each flag with its last value.

    ``unknown`` decides for a flag alone, ``holds`` for a flag and its value, which a preceding ``!`` negates.
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
            answer = holds(flag, word)
            held.append(answer if answer is None else answer is not inverted)
            inverted = False
    return held, values


def names_port(value: str, port: int) -> bool:
    """Return whether the value of ``--dport`` or ``--dports`` (22,80:90) contains this port."""
    ranges = re.findall(r"(\d+)(?::(\d+))?", value)
    return any(int(low) <= port <= int(high or low) for low, high in ranges)


def _iptables_ending(
    chain: str,
    rules: dict[str, list[str]],
    policies: dict[str, str],
    ends: Callable[[str, str], bool],
    above: tuple[str, ...] = (),
) -> Iterable[str]:
    """Yield the rules of a chain, and of those that it jumps to, for which ``ends`` holds by their target and text."""
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
    # A program decides: without one that listens the packet is dropped (iptables-extensions(8), NFQUEUE).
    return target in ("DROP", "REJECT") or (target == "NFQUEUE" and "--queue-bypass" not in rule)


def _translates(target: str, rule: str) -> bool:
    """Return whether the rule translates addresses, as nft's rules of the same kinds do: see there."""
    return target in ("DNAT", "REDIRECT", "SNAT")


def _for_us(chain: str, rule: str) -> bool:
    """Return whether a translating rule concerns a port of this host, or of what it sends to others; true of other
    rules."""
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


# iptables' verdict on a new TCP connection of another host.


INERT = {"LOG", "NFLOG", "MARK", "CONNMARK", "CT", "TRACE", "TCPMSS"}
"""Targets after which the next rule applies."""
_MODULES = {"tcp", "conntrack", "state", "multiport", "comment"}
_ADDRESSES, _INTERFACES = {"-s": "saddr", "-d": "daddr"}, {"-i": "in", "-o": "out"}
_PORTS = {"--dport": "dport", "--dports": "dport", "--sport": "sport", "--sports": "sport"}
_STATES = {"--ctstate", "--state"}
_MARKS = {"--set-xmark", "--restore-mark", "--nfmask", "--ctmask"}
_OTHERS = {"-p", "-m", "-j", "-g", "--tcp-flags", "--reject-with", *_MARKS}
_KNOWN = {*_ADDRESSES, *_INTERFACES, *_PORTS, *_STATES, *_OTHERS}
OUT_OF = ("OUTPUT", "POSTROUTING")
"""Built-in chains for packets out of this host."""
_UNKNOWN = (0, 0)
"""Placeholder of an unknown mark."""
_FLAGS = re.compile(r"(--tcp-flags \S+) (\S+)")
"""Flags that are examined, and those of them that must be set."""

_COMMENT = re.compile(r'--comment (?:"(?:[^"\\]|\\.)*"|\S+)')
"""Comment, which may look like anything."""


def iptables_shut(text: str, tool: Literal["iptables", "ip6tables"], port: int) -> tuple[ShutPort, ...]:
    """Return the built-in chains that let no new connection of another host in to ``port``. Raises BadRuleset."""
    return tuple(_shut(text, tool, port))


def iptables_passes(text: str, packet: FilteredPacket) -> bool:
    """Return whether the built-in chains let the packet through for certain. Raises BadRuleset."""
    for name, policy, lines in _met_by(text, replace(packet, other=None)):
        chains = {
            chain: [_rule(line, packet) if isinstance(line, str) else line for line in its]
            for chain, its in lines.items()
        }
        if not passes(name, chains, policy):
            return False
    return True


def iptables_marks(
    text: str, tool: Literal["iptables", "ip6tables"], port: int, interface: str | None
) -> tuple[PacketMark, ...]:
    """Return the marks on packets that this host sends to and from ``port``, as ``nft_marks`` does. Raises
    BadRuleset."""
    marks, sides = list[PacketMark](), tuple[Direction, ...](("dport", "sport"))
    for table, policies, rules in iptables_tables(text):
        for side in sides if table == "mangle" and "OUTPUT" in policies else ():
            packet = FilteredPacket(port, "out", side == "sport", interface=interface)
            chains = {name: [_rule(line, packet) for line in rules.get(name, ())] for name in policies}
            mark = mark_of([("OUTPUT", chains)])
            if mark is not None and mark[0]:
                where = f"{tool} mangle OUTPUT"
                marks.append(PacketMark(port, side, 4 if tool == "iptables" else 6, mark[0], f"{where}: {mark[1]}"))
    return tuple(marks)


@lru_cache(maxsize=64)
def _met_by(text: str, packet: FilteredPacket) -> list[tuple[str, str, dict[str, list[Rule | str]]]]:
    """Return each built-in chain that a packet meets, with its policy and its table's rules: read once for all
    addresses.

    Rules that depend on the other address, which is unknown here, stay as text.
    """
    chains_met = []
    for table, policies, rules in iptables_tables(text):
        lines = {name: list(_lines(rules.get(name, ()), packet)) for name in policies}
        for name in INTO if packet.way == "in" else OUT_OF:
            translated = table == "nat" and (packet.reply or name == "POSTROUTING")  # the source only, or not consulted
            if name in lines and not translated:
                chains_met.append((name, policies[name].lower(), lines))
    return chains_met


def _lines(lines: Iterable[str], packet: FilteredPacket) -> Iterator[Rule | str]:
    for line in lines:
        rule = _rule(line, packet)
        if rule.matches is not False:
            yield line if rule.matches is None and any(f"{flag} " in line for flag in _ADDRESSES) else rule


def _shut(text: str, tool: str, port: int) -> Iterator[ShutPort]:
    for table, policies, rules in iptables_tables(text):
        if table not in ("filter", "raw", "mangle"):
            continue
        chains = {name: [_rule(line, FilteredPacket(port)) for line in rules.get(name, ())] for name in policies}
        for name in INTO:
            end = shut(name, chains, policies[name].lower()) if name in chains else None
            if end is not None:
                yield ShutPort(port, 4 if tool == "iptables" else 6, end.how, f"{tool} {table} {name}: {end.text}")


def _rule(line: str, packet: FilteredPacket) -> Rule:
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
    """Return the effect of a rule on the packet's mark, as ``Rule.mark``; None if it leaves it unchanged."""
    if "CONNMARK" in words:
        return _UNKNOWN if "--restore-mark" in words else None
    if "MARK" not in words:
        return None
    try:
        value, _, mask = words[words.index("--set-xmark") + 1].partition("/")
        return ALL_BITS & ~int(mask or "0xffffffff", 16), int(value, 16)
    except (ValueError, IndexError):
        return _UNKNOWN


def _matches(words: list[str], packet: FilteredPacket) -> bool | None:
    """Return whether the rule matches the packet, None if unknown."""
    held, _ = rule_parts(words, lambda flag: flag not in _KNOWN, lambda flag, value: _holds(flag, value, packet))
    return False if False in held else None if None in held else True


def _holds(flag: str, value: str, packet: FilteredPacket) -> bool | None:
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
        examined, wanted = value.split("/")
        # The first reply has ACK as well, and the others ACK alone.
        named = {"SYN", "ALL"} & {*examined.split(",")}
        return None if packet.reply else wanted == ("SYN" if named else "NONE")
    if flag == "-m":
        return True if value in _MODULES else None
    return True if flag in ("-j", "-g", "--reject-with", *_MARKS) else None
