"""Test a site's own check without a cluster: facts of nodes, and the findings of the check on them.

from distdoctor.check_api.testing import findings, nodes, with_limits, with_variables

good, bad = nodes(2)
(finding,) = findings("/site/checks/host/queue_tiny.py", good, with_limits(bad, stack=65536))
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from distdoctor.judge.catalog import load
from distdoctor.judge.engine import judge
from distdoctor.model.cluster import build
from distdoctor.model.facts import (
    HostFacts,
    Identity,
    Interface,
    Limits,
    NetworkFacts,
    NodeFacts,
    RendezvousFacts,
    Resolution,
)
from distdoctor.model.findings import Finding
from distdoctor.model.plan import Plan


def nodes(count: int = 2) -> tuple[NodeFacts, ...]:
    """Return nodes host0, host1, ... of one job, with one rank each, which joined. Everything else is unknown."""
    return tuple(_node(number, count) for number in range(count))


def with_limits(facts: NodeFacts, **limits: Any) -> NodeFacts:
    """Return the same node with these fields of Limits, such as ``open_files=1024``."""
    assert facts.host is not None
    return replace(facts, host=replace(facts.host, limits=replace(facts.host.limits or Limits(), **limits)))


def with_variables(facts: NodeFacts, **variables: str) -> NodeFacts:
    """Return the same node with these environment variables set."""
    return replace(facts, variables={**facts.variables, **variables})


def findings(check: Path | str, *facts: NodeFacts) -> list[Finding]:
    """Return the findings of the check in this file on these nodes, run as ``--checks`` runs it.

    The variables that it declares count as collected: one that a node does not have was not set there. Raises
    AssertionError if the check crashes or reads other variables, and BadCheck if its folder cannot be loaded.
    """
    path = Path(check).resolve()
    (loaded,) = (check for check in load([path.parents[1]]) if check.path == path)
    judgement = judge(build([replace(f, site_variables=loaded.variables) for f in facts]), [loaded])
    assert not judgement.broken, judgement.broken
    assert not judgement.uncollected, judgement.uncollected
    return [*judgement.findings]


def _node(number: int, count: int) -> NodeFacts:
    name, address = f"host{number}", f"10.0.0.{10 + number}"
    plan = Plan(nnodes=count, nproc_per_node=1, node_rank=number, world_size=count, master_addr="10.0.0.10")
    interfaces = (Interface("lo", ("127.0.0.1",), (8,), loopback=True), Interface("eth0", (address,), (24,)))
    return NodeFacts(
        Identity(name, f"boot-{name}", f"net-{name}", 1000 + number, "", "3.11"),
        plan,
        node_rank=number,
        host=HostFacts(Resolution(name, (address,)), interfaces),
        network=NetworkFacts(master=Resolution("10.0.0.10", ("10.0.0.10",)), master_is_own=number == 0),
        meeting=RendezvousFacts(joined=True, ours=True, hosted=number == 0, ended=number == 0),
    )
