"""Whether PCIe bridges above devices send what these write to each other up to the root first: Access Control Services.

Read from the bridges' configuration space in /sys, of which only root sees more than the first 64 bytes. The capability
is the extended one 0x0D, its control register is at 6, and bit 2 of that is "P2P Request Redirect" (the kernel's
include/uapi/linux/pci_regs.h: PCI_EXT_CAP_ID_ACS, PCI_ACS_CTRL, PCI_ACS_RR), ``ReqRedir+`` of lspci -vvv.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

EXTENDED, CAPABILITY, CONTROL, REDIRECTS = 0x100, 0x0D, 6, 0x04
MOST = 48
"""Capabilities that are followed: a list that leads in a circle ends there."""


def redirecting(devices: Iterable[Path]) -> int | None:
    """How many of the bridges above these (folders of /sys/bus/pci/devices) do; None where it cannot be read."""
    found: dict[Path, bool] = {}
    for device in devices:
        for bridge in device.resolve().parents:
            config = bridge / "config"
            if bridge in found or not config.exists():
                continue
            control = _control(config)
            if control is None:
                return None
            found[bridge] = bool(control & REDIRECTS)
    return sum(found.values()) if found else None


def _control(path: Path) -> int | None:
    """The control register, 0 of a bridge that has no such services; None where it cannot be read."""
    try:
        config = path.read_bytes()
    except OSError:
        return None
    if len(config) <= EXTENDED:
        return None
    place = EXTENDED
    for _ in range(MOST):
        head = int.from_bytes(config[place : place + 4], "little")
        if head & 0xFFFF == CAPABILITY:
            return int.from_bytes(config[place + CONTROL : place + CONTROL + 2], "little")
        place = head >> 20
        if not EXTENDED <= place < len(config):
            return 0
    return 0
