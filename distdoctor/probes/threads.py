"""Work in a thread that can be left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from distdoctor.probes.process_room import threads_forbidden

T = TypeVar("T")


async def in_time(function: Callable[[], T], seconds: float) -> T | None:
    """``function()``, or None after ``seconds``: what asks a file system may wait for it without end."""
    try:
        value: T | None = await in_thread(function, seconds)
    except asyncio.TimeoutError:
        return None
    return value


async def in_thread(function: Callable[[], T], seconds: float) -> T:
    """``function()`` in a daemon thread. Raises asyncio.TimeoutError after ``seconds``; the thread is then left behind.
    So it does at once in a sandbox that forbids threads.

    The thread cannot keep the process alive, as those of an executor would.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if not future.done():
            if error is None:
                future.set_result(value)  # type: ignore[arg-type]
            else:
                future.set_exception(error)

    def run() -> None:
        value, error = None, None
        try:
            value = function()
        except Exception as err:
            error = err
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:  # the loop is closed: nobody waits for this any more
            pass

    try:
        threading.Thread(target=run, daemon=True, name="distdoctor:probe").start()
    except RuntimeError:
        if not threads_forbidden():
            raise
        raise asyncio.TimeoutError from None
    return await asyncio.wait_for(future, seconds)
