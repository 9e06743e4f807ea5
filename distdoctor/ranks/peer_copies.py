"""Whether what one device copies to another arrives, between each two of which the driver says that they can.

An IOMMU that translates, or ACS on a PCIe switch, redirects such writes: the driver says that it can, and the copy
comes out as zeros or as what was there before, without an error (pytorch#84803, #87363, #132397), or never ends
(pytorch#1637). Torch copies that way where cudaDeviceCanAccessPeer allows it (ATen/cuda/PeerToPeerAccess.cpp).
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distdoctor.ranks.state import State

ELEMENTS = 1 << 16
"""Of 8 bytes: more than what travels inside a command."""
SECONDS = 1.5
"""No further pair is begun after this time."""
MAX_ERROR = 300
TRYING = "distdoctor copies"
"""Begins the line that says, on stdout, which pair is tried: of a copy that never ends it is the last one."""


def copies(state: State) -> dict[str, Any]:
    """The fields of :class:`distdoctor.model.facts.PeerCopies`, but for one that does not end."""
    import torch

    count = torch.cuda.device_count()
    every = [(a, b) for a in range(count) for b in range(count) if a != b]
    pairs = [pair for pair in every if torch.cuda.can_device_access_peer(*pair)]
    began, tried, wrong, error = time.monotonic(), 0, [], ""
    for number, (source, target) in enumerate(pairs, start=1):
        if time.monotonic() - began > SECONDS:
            break
        sys.stdout.write(f"{TRYING} {source} {target}\n")
        sys.stdout.flush()
        # Other numbers in each copy: what an earlier one left in that memory must not pass for this one.
        numbers = torch.arange(ELEMENTS) + number * ELEMENTS
        try:
            arrived = numbers.to(f"cuda:{source}").to(f"cuda:{target}").cpu()
        except Exception as err:
            error = error or f"{source} to {target}: {err}".partition("\n")[0][:MAX_ERROR]
            continue
        tried += 1
        if not torch.equal(arrived, numbers):
            wrong.append((source, target))
    refused = [pair for pair in every if pair not in pairs]
    return {"devices": count, "able": len(pairs), "refused": refused, "tried": tried, "wrong": wrong, "error": error}
