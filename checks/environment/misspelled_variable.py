"""A variable looks like one that torch, NCCL or gloo reads, misspelled.

What you see
------------
Nothing that names it: nobody reads such a variable, and what it was to set has its default. GLOO_SOCKET_IFNAM leaves
gloo on the address of the host name; MASTER_ADR ends in `environment variable MASTER_ADDR expected, but not set`.

Why it happens
--------------
A letter too few or too many in a launch script, a profile or a job description.

Fix
---
Give it the name that is meant.

When it is harmless
-------------------
When it belongs to another program; when the variable that is meant is set as well, which is not reported; and when it
would not be read for this job, which is reported for information only.

See also
--------
environment/missing-variable, environment/deprecated-variable, gloo/loopback-address
"""

from collections.abc import Iterator

from distdoctor.check_api import (
    LAUNCH_VARIABLES,
    Cluster,
    Finding,
    Fix,
    Node,
    intended_variable,
    makes_gloo_group,
    names_of,
    plans_nccl_group,
)

SEVERITY = "warn"
MATTERS = "what it was to set has its default, for nothing reads this name"


def judge(cluster: Cluster) -> Iterator[Finding]:
    pairs: dict[tuple[str, str], list[Node]] = {}
    for node in cluster.nodes:
        for name in node.facts.near_misses:
            right = intended_variable(name)
            if right is not None and right not in node.variables:
                pairs.setdefault((name, right), []).append(node)
    for (name, right), nodes in sorted(pairs.items()):
        yield finding(name, right, nodes)


def finding(name: str, right: str, nodes: list[Node]) -> Finding:
    return Finding.about(
        nodes,
        f"Nothing reads {name}, which is set on {names_of(nodes)} (did you mean {right}?).",
        severity="warn" if any(read(node, right) for node in nodes) else "info",
        evidence=(f"{node.name}: {name} is set, which nothing reads; {right} is not set" for node in nodes),
        fixes=(
            # Values are not looked at (they may be secrets): the shell carries the value over.
            Fix.on(nodes, f"Call it {right}.", commands=(f'export {right}="${name}"; unset {name}',)),
        ),
        because_of="environment/missing-variable" if missing(nodes, right) else because(right),
    )


def missing(nodes: list[Node], right: str) -> bool:
    """Return whether the plan misses the variable that is meant."""
    return any(p.variable == right and p.value is None for node in nodes for p in node.plan.problems)


def because(right: str) -> str | None:
    """The failure that a lack of this variable explains, where that is found: gloo/loopback-address and
    gloo/interface-unreachable, and not a group that fails, which a rank that was killed may be the cause of."""
    return {"GLOO_SOCKET_IFNAME": "gloo/*-[au]*"}.get(right)


def read(node: Node, right: str) -> bool:
    """Return whether the job would read the variable that is meant."""
    plan = node.plan
    if right.startswith(("NCCL_", "TORCH_NCCL_")):
        return plans_nccl_group(node)
    if right.startswith(("GLOO_", "TORCH_GLOO_")):
        return makes_gloo_group(node) and (plan.world_size or 2) > 1
    if right.startswith("PET_"):
        return plan.started == "node" and f"--{right[4:].lower().replace('_', '-')}" not in plan.sources.values()
    if plan.started == "node" and plan.sources.get(right.lower(), "").startswith("--"):
        return False
    return right in LAUNCH_VARIABLES or plan.started == "rank"
