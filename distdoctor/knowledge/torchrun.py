"""Store and name that torchrun's agents give their ranks.

torch/distributed/run.py and elastic/rendezvous/dynamic_rendezvous.py: with the c10d rendezvous the first node in the
order of the names hosts the ranks' store under its getfqdn() name, and connects to that itself, for up to 300 s. From
torch 2.13 on the same applies to one node without an endpoint and a port; before, and with a port, one node's store is
at 127.0.0.1.
"""

from __future__ import annotations

import re

from distdoctor.knowledge.settings import IDENTICAL
from distdoctor.model.addresses import is_loopback, parse_address
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.launch_settings import MASTER_PORT, RDZV_ENDPOINT
from distdoctor.model.plan import Plan

_GIVEN = (MASTER_PORT.flag, MASTER_PORT.pet)
"""Sources of a port for torchrun itself: it ignores MASTER_PORT."""
_ONE_NODE_SINCE = (2, 13)
_IDENTICAL_SINCE = (2, 6)


def announces(node: Node) -> bool:
    """Return whether torchrun, started as this check was, has its ranks join under a host's own name."""
    return may_announce(node.plan) and (node.plan.rdzv_backend == "c10d" or _version(node) >= _ONE_NODE_SINCE)


def may_announce(plan: Plan) -> bool:
    """Return the same, as far as it is known without the version of torch."""
    if plan.started != "node":
        return False  # torchrun has already run, or is not used
    if plan.rdzv_backend != "static":
        return plan.rdzv_backend == "c10d"
    endpoint = plan.sources.get("master_addr", "") in (RDZV_ENDPOINT.flag, RDZV_ENDPOINT.pet)
    return plan.nnodes == 1 and not endpoint and plan.sources.get("master_port") not in _GIVEN


def needs_own_name(node: Node) -> bool:
    """Return whether its agent resolves its own hostname before it joins the others, and ends if that has no address.

    It does so to find out whether it is to host the rendezvous (rendezvous/utils.py, _matches_machine_hostname), unless
    that is configured, or the endpoint is this host's own name or loopback.
    """
    plan = node.plan
    if not _c10d(plan) or plan.is_host is not None or plan.master_addr is None:
        return False
    return not (plan.master_addr in ("localhost", node.identity.hostname) or is_loopback(plan.master_addr))


def takes_itself_for_host(node: Node) -> bool | None:
    """Return whether its agent would host the c10d rendezvous; None if unknown, or without such an agent.

    The same function compares the endpoint's name with the host's, and its addresses with those of the hostname: it
    does not recognize an address that is only on an interface.
    """
    plan, own = node.plan, node.host.own_name
    if not _c10d(plan) or plan.is_host is not None:
        return plan.is_host
    if not needs_own_name(node):
        return True
    if plan.master_addr == (node.host.announced.name if node.host.announced else None):
        return True
    if own.timed_out or not own.addresses or not node.master_addresses:
        return None
    known = {parse_address(address) for address in own.addresses}
    return any(parse_address(address) in known for address in node.master_addresses)


def _c10d(plan: Plan) -> bool:
    return plan.started == "node" and plan.rdzv_backend == "c10d" and not plan.agent_store


def counts_ranks_alone(node: Node) -> bool:
    """Return whether its agent numbers its ranks without asking the others (IDENTICAL in knowledge/settings.py)."""
    identical = node.variables.get(IDENTICAL) == "1"
    return identical and node.plan.started == "node" and _version(node) >= _IDENTICAL_SINCE


def announcing_node(cluster: Cluster) -> Node | None:
    """Return the node whose name is announced, None if unknown or none."""
    nodes = cluster.nodes
    if not nodes or not all(announces(node) for node in nodes) or len(nodes) < (cluster.plan.nnodes or 1):
        return None
    named = [(node.host.announced.name, node) for node in nodes if node.host.announced]
    if len({node.host_key for node in nodes}) > len({node.host_key for _, node in named}):
        return None
    return min(named, key=lambda pair: pair[0])[1] if named else None


def _version(node: Node) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)", node.identity.torch or "")
    return tuple(map(int, match.groups())) if match else ()
