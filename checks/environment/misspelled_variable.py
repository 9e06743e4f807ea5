"""A variable looks like a misspelled variable of torch, NCCL or gloo.

## What you see
Nothing names it: no program reads such a variable, and the setting keeps its default. With GLOO_SOCKET_IFNAM gloo uses
the address of the host name. MASTER_ADR ends in `environment variable MASTER_ADDR expected, but not set`.

## Why it happens
A launch script, a profile or a job description has a letter too few or too many.

## Fix
Correct the name: `export GLOO_SOCKET_IFNAME="$GLOO_SOCKET_IFNAM"; unset GLOO_SOCKET_IFNAM`.

## Confirm with
`env | grep -E '^(GLOO|NCCL|TORCH|MASTER)_'` shows the correct name only.

## When it is harmless
The variable belongs to another program. If the correct variable is set as well, nothing is reported. If this job would
not read it, the finding is only INFO.

## See also
environment/missing-variable, environment/deprecated-variable, gloo/loopback-address
"""

from distdoctor.check_api import (
    LAUNCH_VARIABLES,
    Cluster,
    Finding,
    Fix,
    Iterator,
    Node,
    intended_variable,
    makes_gloo_group,
    names_of,
    plans_nccl_group,
)

SEVERITY = "warn"
MATTERS = "no program reads this name, so the setting keeps its default"


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
        f"{name} is set on {names_of(nodes)}, but no program reads it (did you mean {right}?).",
        severity="warn" if any(read(node, right) for node in nodes) else "info",
        evidence=(f"{node.name}: {name} is set; {right} is not set" for node in nodes),
        fixes=(
            # Values are not looked at (they may be secrets): the shell carries the value over.
            Fix.on(nodes, f"Rename it to {right}.", commands=(f'export {right}="${name}"; unset {name}',)),
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
