"""When plain PyTorch says something for the first time under each fault, and what it is worth.

Measured with torch 2.13 on the same kind of lab: torchrun with a static rendezvous, 2 nodes of 2 ranks, default
timeouts, cut off after 120 s without any output.
"""

from __future__ import annotations

from tests.lab.harness.case import Case

SILENT = "silent > 120 s"
AT_ONCE = "at once"
NEVER = "never (trains)"

BY_CHECK = {
    "barrier/rank-missing": "at once, no cause",
    "barrier/rank-stopped": "silent 1800 s",
    "environment/agent-store-hijack": "silent till its timeout",
    "environment/backend-not-built": AT_ONCE,
    "environment/deprecated-variable": NEVER,
    "environment/duplicate-node-rank": SILENT,
    "environment/duplicate-rank": SILENT,
    "environment/init-file-not-shared": SILENT,
    "environment/invalid-variable": "at once, or silent",
    "environment/master-mismatch": SILENT,
    "environment/misspelled-variable": NEVER,
    "environment/missing-variable": AT_ONCE,
    "environment/rendezvous-backend-mismatch": SILENT,
    "environment/rendezvous-id-mismatch": SILENT,
    "environment/setting-mismatch": "silent, first collective",
    "environment/stale-init-file": "0.5 s, one side",
    "environment/torch-broken": AT_ONCE,
    "environment/torch-missing": AT_ONCE,
    "environment/torch-shadowed": "at once, no cause",
    "environment/too-many-nodes": "silent till the job ends",
    "environment/version-mismatch": NEVER,
    "environment/world-size-mismatch": SILENT,
    "gloo/interface-not-found": AT_ONCE,
    "gloo/init-failed": "at once, one side",
    "gloo/interface-unreachable": "0.5-12 s, one side",
    "gloo/loopback-address": "0.5 s, one side",
    "host/clock-skew": NEVER,
    "host/cpu-affinity": "never (slower)",
    "host/disk-full": NEVER,
    "host/extension-lock-stale": NEVER,
    "host/dns-slow": "never (+10 s a look-up)",
    "host/hostname-loopback": NEVER,
    "host/hostname-numeric": "3 s, no cause",
    "host/hostname-unresolvable": NEVER,
    "host/leftover-processes": NEVER,
    "host/master-port-ephemeral": NEVER,
    "host/memory-limit": "killed, no cause",
    "host/open-files-limit": "2 s",
    "host/port-privileged": AT_ONCE,
    "host/ports-exhaustible": NEVER,
    "host/temporary-folder": "at once",
    "host/thread-limit": "at once, no cause",
    "host/user-unknown": NEVER,
    "host/tmpdir-too-long": NEVER,
    "host/shared-memory-permission": "never, with gloo",
    "host/shared-memory-small": "never, with gloo",
    "mesh/mtu-blackhole": SILENT,
    "mesh/node-isolated": SILENT,
    "mesh/one-way": SILENT,
    "mesh/packet-loss": "never (slower)",
    "mesh/partition": SILENT,
    "mesh/peer-ports-blocked": SILENT,
    "mesh/slow-link": "never (56 s for 64 MB)",
    "network/arp-off": "13 s, wrong address",
    "network/dns-not-ready": "at once, then trains",
    "network/foreign-service": "at once, one side",
    "network/ipv6-mismatch": "0.5 s, cryptic",
    "network/duplicate-address": SILENT,
    "network/master-not-node0": SILENT,
    "network/master-resolves-differently": SILENT,
    "network/master-unreachable": "0.3 s, wrong address",
    "network/master-unresolvable": AT_ONCE,
    "network/no-route": "0.3 s, wrong address",
    "network/port-filtered": SILENT,
    "network/port-in-use": "at once, one side",
    "network/port-refused": SILENT,
    "network/port-rejected": "0.3 s, wrong address",
    "network/service-mesh": SILENT,
    "network/wrong-interface": "0.5 s, one side",
    "store/forged-message": NEVER,
    "store/token-mismatch": NEVER,
    "store/foreign-store": "at once, one side",
    "store/node-lost": "at once, no cause",
    "store/nodes-missing": SILENT,
    "store/silent": "never (no timeout)",
}
"""For each check what its faults usually look like; a row of the table may say otherwise for its own."""


def torch_time(case: Case) -> str:
    """Return what PyTorch's own first error is in this case; ``not measured`` where nobody knows."""
    return case.torch or BY_CHECK.get(case.root, "not measured")
