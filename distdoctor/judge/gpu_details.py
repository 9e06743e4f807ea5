"""What was seen of a node's GPUs, and by whom, for the details of the report. Pure."""

from __future__ import annotations

from typing import Any

from distdoctor.model.facts import NodeFacts, PeerCopies

SOURCES = {"nvml": "NVML", "nvidia-smi": "nvidia-smi", "amd-smi": "amd-smi", "rocm-smi": "rocm-smi"}
ALONE = "torch alone"


def gpu_details(facts: NodeFacts) -> dict[str, Any] | None:
    """Who was asked of them, which rank takes which, and which reach each other; None where no rank sees one."""
    seen = {rank.rank if rank.rank is not None else rank.local_rank: rank for rank in facts.ranks if rank.gpu}
    devices = {device.index: device.name for rank in seen.values() if rank.gpu for device in rank.gpu.visible}
    if not devices:
        return None
    driver, amd = facts.driver, facts.amd
    source = SOURCES.get((driver.source if driver else "") or (amd.source if amd else ""), ALONE)
    taken = {
        str(number): rank.gpu.visible[rank.local_rank % len(rank.gpu.visible)]
        for number, rank in seen.items()
        if rank.gpu and rank.gpu.visible
    }
    values: dict[str, Any] = {
        "asked": source,
        "not_asked": driver.error if driver and source == ALONE else "",
        "driver": (driver.module if driver else "") or (amd.module if amd else ""),
        "cuda": driver.cuda if driver else "",
        "models": list(dict.fromkeys(devices.values())),
        "devices_of_ranks": {number: f"{one.index} {one.uuid}".strip() for number, one in taken.items()},
        "copies": _copies(facts.peers) if facts.peers else None,
    }
    return {name: value for name, value in values.items() if value}


def _copies(peers: PeerCopies) -> str:
    """``54 of 56 pairs reach each other's memory, not 3 to 4; 54 copies tried, 0 wrong``."""
    pairs = peers.devices * (peers.devices - 1)
    apart = ", ".join(f"{one} to {other}" for one, other in peers.refused)
    reach = f"{peers.able} of {pairs} pairs reach each other's memory{f', not {apart}' if apart else ''}"
    endless = f", {peers.endless[0]} to {peers.endless[1]} did not end" if peers.endless else ""
    return f"{reach}; {peers.tried} copies tried, {len(peers.wrong)} wrong{endless}"
