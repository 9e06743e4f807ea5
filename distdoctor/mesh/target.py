"""To whom links are measured: the addresses of a node that its peers would use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from distdoctor.model.facts import NodeFacts

TOKEN_BYTES = 32
"""Of the token that the doctor's own listeners ask for."""
_LINK_LOCAL = "fe80:"
"""How the addresses begin that are none without an interface beside them (ipv6(7))."""


@dataclass(frozen=True)
class Target:
    """An address of a node that the others try to reach, and who would use it."""

    member: int
    """The number of the process that listens there."""
    key: str
    address: str
    port: int
    use: tuple[str, ...]


def addresses_of(facts: NodeFacts, *, nccl: bool) -> Iterator[tuple[str, str]]:
    """(who would use it, address) for every address of a node that its peers connect to."""
    host, network = facts.host, facts.network
    choices = [("gloo", host.gloo if host else None), ("primary", network.primary if network else None)]
    choices += [("gloo", choice) for choice in (host.gloo_more if host else ())]
    if nccl:
        taken = host.nccl if host else None
        if taken is not None and not (taken.address or "").startswith(_LINK_LOCAL):
            # NCCL finds such an address by the interface beside it, which it tells its peers, too.
            choices.append(("nccl", taken))
    for use, choice in choices:
        if choice is not None and choice.address is not None:
            yield use, choice.address
