"""TCPStore in a rank's process: hosting one, and using one as a client."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distdoctor.ranks.state import State


def host(state: State, port: int, timeout: float) -> dict[str, Any]:
    """Host a TCPStore on ``port`` of all addresses until this process ends. Raises what torch raises.

    ``world_size=None``: a store that waits for a world size would hang here as PyTorch does.
    """
    import torch.distributed as dist

    # The server looks up the name of whoever connects, before it serves the next: with a name server that does not
    # answer, the store would be silent for 10 s per client. The names are for its log only, so no server is asked at
    # all (glibc's resolver sends a question as often as ``attempts`` says); "localhost" is in /etc/hosts.
    os.environ["RES_OPTIONS"] = "attempts:0"
    # As the job's: env:// reads this variable (torch/distributed/rendezvous.py), the constructor itself does not.
    legacy = {} if os.environ.get("USE_LIBUV", "1") == "1" else {"use_libuv": False}
    try:
        state.store = dist.TCPStore("localhost", port, None, True, timedelta(seconds=timeout), False, **legacy)
    except RuntimeError as err:
        raise OSError(_bind_errno(str(err)), str(err)[:500]) from None
    return {"port": state.store.port}


def _bind_errno(text: str) -> int:
    """The errno in torch's message (``code: -98`` since libuv, ``errno: 98`` before); 0 where there is none."""
    match = re.search(r"(?:code: -|errno: )(\d+)", text)
    return int(match[1]) if match else 0


def client(state: State, host: str, port: int, prefix: str, rank: int, world: int, timeout: float) -> dict[str, Any]:
    """Connect as this rank and use the store as init_process_group() will: set, get, add, and wait for every rank."""
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
