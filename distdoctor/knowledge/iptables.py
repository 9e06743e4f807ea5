"""iptables' rules, as ``iptables-save`` prints them: the chains that can block."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from distdoctor.knowledge.ruleset import BadRuleset, FilterHook
from distdoctor.model.facts import FirewallChain

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
    """Whether each part of a rule holds, None where that is not known; and each flag with its last value.

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
    """Whether ports as ``--dport`` or ``--dports`` has them (22,80:90) have this one among them."""
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
    """What nft's rules of the same kinds do: see there."""
    return target in ("DNAT", "REDIRECT", "SNAT")


def _for_us(chain: str, rule: str) -> bool:
    """Whether a rule that translates is one for a port of this host, or for what it sends to others; true of others."""
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
