"""Lines that are written of failures of the stage gloo."""

from __future__ import annotations

CAUSES: tuple[tuple[str, str], ...] = (
    (
        "gloo/interface-not-found",
        "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:83] ifa != "
        "nullptr. Unable to find address for: ib0",
    ),
    ("gloo/unsupported-device", "RuntimeError: makeDeviceForHostname(): unsupported gloo device"),
    (
        "gloo/loopback-address",
        "RuntimeError: Gloo connectFullMesh failed with "
        "[../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error. connect [127.0.1.1]:4932: "
        "Connection refused",
    ),
)

SYMPTOMS: tuple[tuple[str, str], ...] = (("gloo/init-failed", "RuntimeError: Rank 0 is NOT connected to: [1, 2, ]"),)
