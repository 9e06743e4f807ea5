"""Other ports of hosts that give no answer on one: whether a filter lets some of them through."""

from __future__ import annotations

import asyncio

from distdoctor.model.facts import SAMPLED_PORTS
from distdoctor.probes.connect import connect

MOST = 4
"""Links without an answer on which other ports are tried, too."""
SILENT_SECONDS = 1.5
"""After it a link that has not answered is one of those: two SYNs were sent, and the last is waited for meanwhile."""
SAMPLE_SECONDS = 1.2
"""Long enough for the SYN and one repetition of it."""


async def let_through(address: str) -> tuple[int, ...]:
    """On which of SAMPLED_PORTS of a host something answers, if only to refuse."""
    tried = await asyncio.gather(*(connect(address, port, SAMPLE_SECONDS) for port in SAMPLED_PORTS))
    return tuple(one.port for one in tried if one.answered and not one.icmp)


class Samples:
    """At most MOST addresses' samples, begun while the link itself is still tried."""

    def __init__(self) -> None:
        self._begun: dict[str, asyncio.Task[tuple[int, ...]]] = {}

    def begin(self, address: str) -> None:
        """Try the other ports of this address, too, unless enough are tried."""
        if len(self._begun) < MOST and address not in self._begun:
            self._begun[address] = asyncio.ensure_future(let_through(address))

    async def of(self, address: str) -> tuple[int, ...]:
        """What came of this address."""
        begun = self._begun.get(address)
        return await (begun if begun is not None else let_through(address))

    async def close(self) -> None:
        """End those that nobody asked for: their links answered late."""
        for task in self._begun.values():
            task.cancel()
        await asyncio.gather(*self._begun.values(), return_exceptions=True)
