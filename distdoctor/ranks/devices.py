"""The devices that a rank's process can see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distdoctor.ranks.state import State


def visible(state: State) -> dict[str, Any]:
    """Every visible CUDA device, or in ``reason`` why there is none."""
    import torch

    if torch.version.cuda is None and torch.version.hip is None:
        return {"visible": [], "reason": "this torch is a CPU build"}
    if not torch.cuda.is_available():
        try:
            torch.cuda.init()  # type: ignore[no-untyped-call]
        except Exception as err:
            first_sentence = str(err).partition("\n")[0].partition(". ")[0]
            return {"visible": [], "reason": first_sentence[:200]}
        return {"visible": [], "reason": "torch.cuda.is_available() is False"}
    devices = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        devices.append(
            {
                "index": index,
                "name": properties.name,
                "uuid": str(getattr(properties, "uuid", "")),
                "memory_bytes": properties.total_memory,
            }
        )
    return {"visible": devices, "reason": None if devices else "no device is visible"}
