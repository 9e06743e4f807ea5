"""Checks named together as the causes of others."""

from __future__ import annotations

CONFLICTS = tuple(
    f"environment/{name}"
    for name in ("rendezvous-id-mismatch", "backend-not-built", "stale-init-file", "init-file-not-shared")
)
"""The plans contradict each other or what is there: node 0 then does not wait for those who have not come yet."""
LIMITS = ("host/open-files-limit", "host/ports-exhaustible")
"""A limit of the host that ranks run into wherever they need one more descriptor or port."""


LAUNCH = tuple(
    f"environment/{name}"
    for name in (
        "missing-variable",
        "invalid-variable",
        "torch-missing",
        "torch-shadowed",
        "torch-broken",
        "duplicate-rank",
        "duplicate-node-rank",
        "world-size-mismatch",
        "too-many-nodes",
        "master-mismatch",
        "agent-store-hijack",
    )
)
"""The checks of the environment that keep nodes from meeting, or from agreeing once they met."""
MASTER = (
    "network/master-unresolvable",
    "network/master-resolves-differently",
    "network/master-not-node0",
    "network/port-in-use",
    "network/port-not-bindable",
    "network/foreign-service",
    "store/foreign-store",
    "store/silent",
    "store/token-mismatch",
    "store/forged-message",
    "store/libuv-missing",
    "host/port-privileged",
    "host/hostname-numeric",
)
"""The checks that say why there is no store of this job at MASTER_ADDR:MASTER_PORT."""
NAMES = ("network/master-unresolvable", "network/master-resolves-differently")
"""Those of them that are a matter of the node that asks: they keep no other node away."""
STORE = tuple(check for check in MASTER if check not in NAMES)
WAY = (
    "network/no-route",
    "network/port-filtered",
    "network/port-rejected",
    "network/port-refused",
    "network/master-unreachable",
)
"""The checks that say why a node does not get to a store that is there."""
PEERS = (
    "barrier/rank-stopped",
    "store/forged-message",
    "network/wrong-interface",
    "network/ipv6-mismatch",
    "network/no-route",
    "mesh/partition",
    "mesh/node-isolated",
    "mesh/one-way",
    "mesh/peer-ports-blocked",
    "mesh/mtu-blackhole",
    "gloo/loopback-address",
    "gloo/interface-not-found",
    "gloo/interface-unreachable",
    "environment/setting-mismatch",
    *LIMITS,
)
"""The checks that say why what the ranks do together fails: a stopped rank, or connections between the nodes."""
