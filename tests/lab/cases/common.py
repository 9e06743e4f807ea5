"""What the rows of several stages have in common."""

from __future__ import annotations

from tests.lab.faults.links import second_network
from tests.lab.harness.case import Root

PRIVATE_LAN = "192.168.7.0/24"
LOOPBACK = "gloo/loopback-address"
NCCL_HOST = ("--backend", "nccl", "--until", "host")
"""Without a gloo group, and not as high as the GPUs that a lab may lack. A node alone does not know that low on the
ladder whether it talks to other hosts, so only the facts together tell."""
BOTH, ALL3 = ("host0", "host1"), ("host0", "host1", "host2")
SMALL_SHM = Root("host/shared-memory-small", ["host1"], "warn")
NO_INTERFACE = "gloo/interface-not-found"
TWO_NETWORKS = second_network("10.99.0.10/24", "10.99.0.11/24", joined=True)
