"""A setting of NCCL, gloo or torch differs between nodes.

What you see
------------
Depends on the setting: `collective mismatch error, local size ... remote ...`, a hang in the first collective, one node
on InfiniBand while the others wait on sockets, or only lower throughput.

Why it happens
--------------
The variable is set in one node's profile, container or launch script only. Both ends of a connection must agree on its
transport, protocol and buffer sizes; each side takes its own environment for granted.

Fix
---
Set it to one value on all nodes, or on none.

When it is harmless
-------------------
Interfaces, adapters, files, host ids, levels of logging may rightly differ from node to node and are not compared;
neither are settings of a backend that the job does not use.

See also
--------
environment/version-mismatch, gloo/init-failed, nccl/init-failed
"""

import re

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node
from distdoctor.compare import Split, plans_nccl, split
from distdoctor.outcomes import failed
from distdoctor.probes.known_variables import DEPRECATED

SEVERITY = "warn"
MATTERS = "settings that differ between nodes may hang a collective, or slow all of them down"
BY_NODE = re.compile(
    r".*(_IFNAME|_FILE|_PATH|_DIR|_HCA|HOSTID|_DEBUG|_SUBSYS|_LOGGING|_LOG_LEVEL|_UUID|_CLIQUE_ID|_GID_INDEX|_ADDR_RANGE"
    r"|_CPU_AFFINITY|_THREAD_NAME|_TIMESTAMP_FORMAT|_COMM_ID)|NCCL_(RAS|TOPO|GRAPH|DEBUG|IB_ADDR)_.*"
)
"""Names whose values may rightly differ per node, or do not concern the others."""
GLOO = ("GLOO_DEVICE_TRANSPORT", "TORCH_GLOO_LAZY_INIT")
"""What decides how gloo connects: where it differs and gloo failed, that is why."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    found = {name: apart for name in names(cluster) if (apart := differing(cluster, name)) is not None}
    if not found:
        return
    majority = all(apart.majority for apart in found.values())
    blamed = {name for apart in found.values() for name in apart.blamed}
    nodes = [node for node in cluster.nodes if node.name in blamed]
    parts = [f"{name} differs: {apart.said()}" for name, apart in found.items()]
    yield Finding(
        summary=f"{'; '.join(parts)}.",
        nodes=tuple(node.name for node in nodes),
        ranks=tuple(rank for node in nodes for rank in node.ranks),
        blame="all" if majority else "one-of",
        severity="fail" if breaks(cluster, found) else "warn",
        evidence=tuple(
            f"{node}: {name}={value}" if value is not None else f"{node}: {name} is not set"
            for name, apart in found.items()
            for node, value in apart.values.items()
        ),
        fixes=tuple(fix for name, apart in found.items() for fix in fixes(name, apart)),
    )


def names(cluster: Cluster) -> list[str]:
    """The settings of the backends that the job uses on every node."""
    prefixes = []
    if all(plans_nccl(node) for node in cluster.nodes):
        prefixes += ["NCCL_", "TORCH_NCCL_"]
    if all(node.plan.gloo_planned for node in cluster.nodes):
        prefixes += ["GLOO_", "TORCH_GLOO_"]
    there = {name for node in cluster.nodes for name in node.facts.variables}
    # What nobody reads, or reads by another name as well, has checks of its own.
    there -= {name for node in cluster.nodes for name in node.facts.near_misses} | set(DEPRECATED)
    return sorted(name for name in there if name.startswith(tuple(prefixes)) and not BY_NODE.fullmatch(name))


def differing(cluster: Cluster, name: str) -> Split[str | None] | None:
    # An empty value is what a variable that is not set amounts to.
    return split({node.name: value(node, name) for node in cluster.nodes})


def value(node: Node, name: str) -> str | None:
    return node.facts.variables.get(name) or None


def breaks(cluster: Cluster, found: dict[str, Split[str | None]]) -> bool:
    """Whether gloo failed, and a setting that decides how it connects is among those that differ."""
    return any(name in found for name in GLOO) and any(failed(cluster, s) for s in ("gloo", "barrier", "collective"))


def fixes(name: str, apart: Split[str | None]) -> Iterator[Fix]:
    yield fix(name, apart, apart.usual, 1)
    if not apart.majority:
        other = next(value for value in apart.values.values() if value != apart.usual)
        yield fix(name, apart, other, 2)


def fix(name: str, apart: Split[str | None], wanted: str | None, option: int) -> Fix:
    text = f"Unset {name} on every node." if wanted is None else f"Set {name} to {wanted} on every node."
    nodes = tuple(node for node, value in apart.values.items() if value != wanted)
    return Fix(text, nodes, option, env={name: wanted})
