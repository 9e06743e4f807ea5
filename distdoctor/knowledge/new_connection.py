"""What becomes of a new TCP connection of another host in a chain of a packet filter. Pure.

Of a match it is known that it holds, that it does not, or neither: which host it comes from, and by which interface, is
not. So a chain has several possible ends, and shuts a port for certain only where none of them lets the packet through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

How = Literal["drop", "reject", "reset"]
Verdict = Literal["accept", "drop", "reject", "reset", "return", "jump", "goto", ""]


@dataclass(frozen=True)
class Rule:
    """One rule, for this packet."""

    matches: bool | None
    """None: not known."""
    verdict: Verdict
    """Empty: it only counts or logs."""
    text: str = ""
    target: str = ""
    """The chain of a jump or goto."""


@dataclass(frozen=True)
class Shut:
    """An end of the packet: refused, and by which rule."""

    how: How
    text: str


Chains = Mapping[str, Sequence[Rule]]
End = Shut | Literal["let through", "fallen through"]


def shut(chain: str, chains: Chains, policy: str) -> Shut | None:
    """How a base chain refuses the packet for certain; None where it may let it through."""
    ends = _ends(chain, chains, ())
    refused = [end for end in ends if isinstance(end, Shut)]
    if "fallen through" in ends and policy == "drop":
        refused.append(Shut("drop", f"policy {policy}"))
    elif "fallen through" in ends:
        return None
    if "let through" in ends or not refused:
        return None
    hows = {end.how for end in refused}
    # The last one is what refuses all that no rule before it names.
    return Shut(hows.pop() if len(hows) == 1 else "drop", refused[-1].text)


def may_pass(chain: str, chains: Chains) -> bool:
    """Whether some rule of the chain may accept the packet, or send it elsewhere."""
    return "let through" in _ends(chain, chains, ())


def _ends(chain: str, chains: Chains, above: tuple[str, ...]) -> list[End]:
    """Every end that the packet may find in ``chain``, each once."""
    if chain not in chains or chain in above or len(above) > 16:
        return ["let through"]
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
    if rule.verdict == "return":
        return ["fallen through"], False
    if rule.verdict == "drop" or rule.verdict == "reject" or rule.verdict == "reset":
        return [Shut(rule.verdict, rule.text)], False
    inner = _ends(rule.target, chains, above)
    if rule.verdict == "goto":
        return inner, False
    return [end for end in inner if end != "fallen through"], "fallen through" in inner
