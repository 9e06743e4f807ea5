"""What the rulesets of nft and iptables have in common."""

from __future__ import annotations

from typing import Literal

FilterHook = Literal["input", "output"]
Direction = Literal["dport", "sport"]


class BadRuleset(ValueError):
    """A ruleset that is not in the form its tool prints."""
