"""What runs in a process forked from the zygote: it answers calls, one at a time, until its channel closes.

Every answer is a JSON object with ``ok``; where that is false, ``error`` holds the exception's text. A call that does
not return is ended from outside: the supervisor kills the process.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

from distdoctor.model.error_text import shortened
from distdoctor.ranks import collectives, devices, groups, peer_copies, stores
from distdoctor.ranks.state import State

MAX_MESSAGE = 1 << 17
MAX_ERROR = 2000
"""Characters kept of an exception's text."""


OPS: dict[str, Callable[..., dict[str, Any]]] = {
    "store_host": stores.host,
    "store": stores.client,
    "gloo": groups.gloo,
    "nccl": groups.nccl,
    "barrier": groups.barrier,
    "collective": collectives.run,
    "gpu": devices.visible,
    "peers": peer_copies.copies,
}


def main(channel: socket.socket) -> None:
    """Answer calls until the channel closes."""
    import torch

    # The parent ran no OpenMP region; with more than one thread here a forked child may hang in large tensors.
    torch.set_num_threads(1)
    channel.setblocking(True)
    state = State()
    while True:
        data = channel.recv(MAX_MESSAGE)
        if not data:
            return
        request = json.loads(data)
        channel.sendall(json.dumps(answer(state, request)).encode())


def answer(state: State, request: dict[str, Any]) -> dict[str, Any]:
    """The answer to one call; an exception becomes ``ok: false`` with its text."""
    op = request.pop("op")
    started = time.monotonic()
    try:
        result = {"ok": True, **OPS[op](state, **request)}
    except Exception as err:
        result = {"ok": False, "error": shortened(f"{type(err).__name__}: {err}", MAX_ERROR)}
        result.update(groups.listening_now() if op == "gloo" else {})
        code = getattr(err, "errno", None)
        if isinstance(code, int):
            result["errno"] = code
    result["seconds"] = time.monotonic() - started
    return result
