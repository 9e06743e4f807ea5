"""Something else than this job's store on node 0's port: whose port it is, and what to say and do about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from distdoctor.check_api.fixes import end_leftover_fix, other_master_port_fixes
from distdoctor.check_api.nodes import claims_node0, node0_name
from distdoctor.check_api.text import port_holder_seen
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.findings import Finding


def master_port_owner(cluster: Cluster, seen: Sequence[Node]) -> tuple[Node | None, str]:
    """(node 0 where its facts are here, its name) for nodes that looked for it: one of them that takes itself for it,
    else the cluster's."""
    owner = next((node for node in seen if claims_node0(node)), None) or cluster.node0
    return owner, owner.name if owner else node0_name(cluster, seen[0])


def taken_port_finding(
    cluster: Cluster, seen: Sequence[Node], what: str, evidence: Iterable[str], rest: str = ""
) -> Finding:
    """The finding about what these nodes met on node 0's port: ``what``, on which port, and the ``rest``."""
    owner, name = master_port_owner(cluster, seen)
    bind = owner.network.bind if owner else None
    port, holders = seen[0].plan.master_port, bind.holders if bind else ()
    serves = bool(bind and bind.answer and bind.answer.kind == "tcpstore")
    return Finding.about(
        [name],
        f"{what} on port {port} of {name}{rest}.",
        evidence=(
            *evidence,
            *(f"{name}: {port_holder_seen(replace(one, hosts_store=serves), port)}" for one in holders),
        ),
        fixes=(
            *other_master_port_fixes(cluster, bind.free_port if bind else None),
            *((end_leftover_fix(holders, owner),) if owner and holders else ()),
        ),
    )
