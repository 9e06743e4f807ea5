"""How ranks are told in what the logs say together."""

from __future__ import annotations

from collections.abc import Sequence

SHOWN = 8


def rank_list(ranks: Sequence[int]) -> str:
    """``rank 3``, ``ranks 0, 1``, or the first ones and how many more."""
    more = f" and {len(ranks) - SHOWN} more" if len(ranks) > SHOWN else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks[:SHOWN]))}{more}"
