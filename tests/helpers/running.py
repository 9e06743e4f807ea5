"""A zygote in a test, and the event loop that reads from it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from distdoctor.ranks.supervisor import Child, Zygote

T = TypeVar("T")
SECONDS = 20.0


class Running:
    """A zygote and the event loop that reads from it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.zygote = Zygote()

        async def listen() -> None:
            self.zygote.listen()

        self.do(listen())

    def do(self, work: Awaitable[T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, SECONDS))

    def child(self, env: dict[str, str | None] | None = None) -> Child:
        """A child that is known to run."""
        self.do(self.zygote.torch())
        child = self.zygote.spawn("distdoctor:try", env)
        assert self.do(child.call("gpu"))["ok"]
        assert child.pid is not None
        return child

    def close(self) -> None:
        self.zygote.stop()
        self.do(asyncio.sleep(0))
        self.loop.close()
