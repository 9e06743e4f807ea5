"""What becomes of a new TCP connection of another host in a chain of a packet filter. Pure.

Of a match it is known that it holds, that it does not, or neither: which host it comes from, and by which interface, is
not. So a chain has several possible ends, and shuts a port for certain only where none of them lets the packet through.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

How = Literal["drop", "reject", "reset"]
Verdict = Literal["accept", "drop", "reject", "reset", "return", "jump", "goto", "elsewhere", ""]


@dataclass(frozen=True)
class Rule:
    """One rule, for this packet."""

    matches: bool | None
    """None: not known."""
    verdict: Verdict
    """Empty: it only counts or logs; elsewhere: what becomes of the packet is not for this chain to say."""
    text: str = ""
    target: str = ""
    """The chain of a jump or goto."""


@dataclass(frozen=True)
class Shut:
    """An end of the packet: refused, and by which rule."""

    how: How
    text: str


@dataclass(frozen=True)
class Source:
    """Where the connection comes from."""

    address: str
    interface: str | None = None
    """By which it comes; None: not known."""


def came_from(source: Source | None, network: str) -> bool | None:
    """Whether it comes from an address or network, ``10.0.0.0/8``; None where that is not known."""
    if source is None:
        return None
    try:
        return ipaddress.ip_address(source.address) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return None


def came_by(source: Source | None, pattern: str) -> bool | None:
    """Whether it comes by an interface of this name, which may end in ``*``; None where that is not known."""
    if source is None or source.interface is None:
        return None
    return source.interface == pattern or (pattern.endswith("*") and source.interface.startswith(pattern[:-1]))


Chains = Mapping[str, Sequence[Rule]]
End = Shut | Literal["let through", "fallen through", "sent elsewhere"]


def shut(chain: str, chains: Chains, policy: str) -> Shut | None:
    """How a base chain refuses the packet for certain; None where it may let it through."""
    ends = _ends(chain, chains, ())
    refused = [end for end in ends if isinstance(end, Shut)]
    if "fallen through" in ends and policy == "drop":
        refused.append(Shut("drop", f"policy {policy}"))
    elif "fallen through" in ends:
        return None
    if "let through" in ends or "sent elsewhere" in ends or not refused:
        return None
    hows = {end.how for end in refused}
    # The last one is what refuses all that no rule before it names.
    return Shut(hows.pop() if len(hows) == 1 else "drop", refused[-1].text)


def may_pass(chain: str, chains: Chains) -> bool:
    """Whether some rule of the chain may accept the packet, or send it elsewhere."""
    return not {"let through", "sent elsewhere"}.isdisjoint(_ends(chain, chains, ()))


def passes(chain: str, chains: Chains, policy: str) -> bool:
    """Whether a base chain lets the packet through for certain, to where it was sent."""
    through = {"let through"} if policy == "drop" else {"let through", "fallen through"}
    return through.issuperset(_ends(chain, chains, ()))


def _ends(chain: str, chains: Chains, above: tuple[str, ...]) -> list[End]:
    """Every end that the packet may find in ``chain``, each once."""
    if chain not in chains or chain in above or len(above) > 16:
        return ["sent elsewhere"]
    found: dict[End, None] = {}
    for rule in chains[chain]:
        if rule.matches is False or not rule.verdict:
            continue
        ends, goes_on = _taken(rule, chains, (*above, chain))
        found.update(dict.fromkeys(ends))
        if rule.matches and not goes_on:
            return list(found)
    found["fallen through"] = None
    return list(found)


def _taken(rule: Rule, chains: Chains, above: tuple[str, ...]) -> tuple[list[End], bool]:
    """(the ends that the rule itself makes, whether the next rule may be asked all the same)."""
    if rule.verdict == "accept":
        return ["let through"], False
    if rule.verdict == "elsewhere":
        return ["sent elsewhere"], False
    if rule.verdict == "return":
        return ["fallen through"], False
    if rule.verdict == "drop" or rule.verdict == "reject" or rule.verdict == "reset":
        return [Shut(rule.verdict, rule.text)], False
    inner = _ends(rule.target, chains, above)
    if rule.verdict == "goto":
        return inner, False
    return [end for end in inner if end != "fallen through"], "fallen through" in inner
