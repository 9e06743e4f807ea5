"""Process forked from the zygote: it answers calls, one at a time, until its channel closes.

Every answer is a JSON object with ``ok``; if that is false, ``error`` holds the exception's text. A call that does not
return is ended from outside: the supervisor kills the process.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from distdoctor.model.stages import BARRIER, COLLECTIVE, GLOO, NCCL, STORE
from distdoctor.model.text import shortened
from distdoctor.ranks import devices, groups, subgroups
from distdoctor.ranks.groups import State

# TCPStore in a rank's process: hosting one, and using one as a client.


def host_store(state: State, port: int, timeout: float) -> dict[str, Any]:
    """Host a TCPStore on ``port`` of all addresses until this process ends. Raises torch's exceptions.

    The host ignores MASTER_ADDR: it listens on all addresses, whichever it is given, and only clients connect to that
    one (``store_client``). So it connects to itself by "localhost". ``world_size=None``: a store that waits for a world
    size would hang here as PyTorch does.
    """
    import torch.distributed as dist

    # The server looks up the name of each client, before it serves the next: with a name server that does not answer,
    # the store would be silent for 10 s per client. The names are for its log only, so no server is asked at all
    # (glibc's resolver sends a query as often as ``attempts`` says); "localhost" is in /etc/hosts.
    os.environ["RES_OPTIONS"] = "attempts:0"
    # As the job's: env:// reads this variable (torch/distributed/rendezvous.py), the constructor itself does not.
    legacy = {} if os.environ.get("USE_LIBUV", "1") == "1" else {"use_libuv": False}
    try:
        state.store = dist.TCPStore("localhost", port, None, True, timedelta(seconds=timeout), False, **legacy)
    except RuntimeError as err:
        raise OSError(_bind_errno(str(err)), str(err)[:500]) from None
    return {"port": state.store.port}


def _bind_errno(text: str) -> int:
    """Return the errno in torch's message (``code: -98`` since libuv, ``errno: 98`` before); 0 without one."""
    match = re.search(r"(?:code: -|errno: )(\d+)", text)
    return int(match[1]) if match else 0


def store_client(
    state: State, host: str, port: int, prefix: str, rank: int, world: int, timeout: float
) -> dict[str, Any]:
    """Connect as this rank and use the store as init_process_group() will: set, get, add, and wait for every rank.

    ``host`` is the address of MASTER_ADDR at which this node reached the store (``JoinedStore.address``).
    """
    import torch.distributed as dist

    store = dist.TCPStore(host, port, None, False, timedelta(seconds=timeout), False)
    shared = dist.PrefixStore(prefix, store)
    value = f"rank {rank} of {world}"
    shared.set(f"value/{rank}", value)
    if shared.get(f"value/{rank}").decode() != value:
        raise RuntimeError("the store gave back another value than the one set")
    count = shared.add("count", 1)
    if not 1 <= count <= world:
        raise RuntimeError(f"the store's counter is {count} with {world} ranks")
    shared.wait([f"value/{peer}" for peer in range(world)], timedelta(seconds=timeout))
    state.store, state.rank, state.world = store, rank, world
    return {}


MAX_MESSAGE = 1 << 17
MAX_ERROR = 2000
"""Characters kept of an exception's text."""


OPS: dict[str, Callable[..., dict[str, Any]]] = {
    "store_host": host_store,
    STORE.name: store_client,
    GLOO.name: groups.gloo,
    NCCL.name: groups.nccl,
    BARRIER.name: groups.barrier,
    COLLECTIVE.name: groups.run_collectives,
    "gloo-groups": subgroups.create_gloo,
    "nccl-groups": subgroups.create_nccl,
    "gpu": devices.visible,
    "peers": devices.copy_between_peers,
}
"""Functions that ``Child.call(NAME, ...)`` runs in a rank's process: those of stages by the stage's name (called by
``RankStages`` of session/stages/ranks.py), the others by names of their own."""


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
    """Return the answer to one call; an exception becomes ``ok: false`` with its text."""
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
