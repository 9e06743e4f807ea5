"""A setting of NCCL, gloo or torch differs between nodes.

## What you see
It depends on the setting.

With TORCH_DISTRIBUTED_DEBUG=DETAIL, or two names in GLOO_SOCKET_IFNAME, on one node only: `wait timeout after ... keys:
.../pg_wrapper:0/0/1` (or `.../1/0`) there, and silence on the others. With TORCH_GLOO_LAZY_INIT: a crash or a hang in
the first collective.

With NCCL: `collective mismatch error, local size ... remote ...`, or one node on InfiniBand while the others wait on
sockets, or only lower throughput. With TORCH_ELASTIC_WORKER_IDENTICAL=1 on some nodes only, the ranks of one node
start, and the other torchrun agents wait.

## Why it happens
The variable is set in one node's profile, container or launch script only. Both ends of a connection must agree on
transport, protocol and buffer sizes. All ranks must agree on the number of process groups and devices. DETAIL adds a
second group to each, and gloo creates one device per name in GLOO_SOCKET_IFNAME.

torchrun's agents exchange their numbers of ranks, except agents with TORCH_ELASTIC_WORKER_IDENTICAL. Each node uses
only its own environment.

## Fix
Set the variable to one value on all nodes, or unset it on all: `unset NCCL_IB_DISABLE`.

## Confirm with
`for h in host0 host1; do ssh $h 'env | grep -E "NCCL_|GLOO_|TORCH_" | sort | md5sum'; done` prints the same sum for
every node.

## When it is harmless
Only settings that must be equal are compared, by their effect. INFO instead of DETAIL, names of interfaces, adapters
and files, host ids and log levels may differ. So may settings of a backend that the job does not use.

## See also
environment/version-mismatch, gloo/interface-not-found, gloo/init-failed, nccl/init-failed
"""

import re
from collections.abc import Iterator

from distdoctor.check_api import (
    DEPRECATED_VARIABLES,
    FATAL_SETTINGS,
    GLOO_INTERFACES,
    GLOO_SETTINGS,
    Cluster,
    Disagreement,
    Finding,
    Fix,
    Line,
    Node,
    PlanProblem,
    disagreement,
    failed_ranks,
    gloo_device_names,
    gpus,
    groups,
    must_be_alike,
    names_of,
    planned_rank_count,
    plans_nccl_group,
    rdma,
    setting_effect,
    settings,
    together,
    unreadable,
)

SEVERITY = "warn"
LOG = (
    Line("collective mismatch error", "collective mismatch error, local size"),
    Line(
        "collective mismatch error local size",  # NCCL before 2.11
        shows="symptom",
        why="ranks in different collectives, and adapters with PCI_WR_ORDERING=force_relax, show the same",
    ),
    Line(  # c10d's ProcessGroupWrapper, which makes a group of its own
        "pg_wrapper",
        r"wait timeout after \d{1,9} ?ms, keys: \S{0,200}pg_wrapper",
        shows="symptom",
        why="with TORCH_DISTRIBUTED_DEBUG=DETAIL on all nodes, a rank that does not join shows the same",
    ),
    Line(  # distdoctor's own, of what each rank's NCCL said
        "settings: the ranks' NCCL is set differently", shows="hint", why="not every setting that differs does harm"
    ),
)
MATTERS = "settings that differ between nodes may hang a collective, or slow all of them down"
PREVENTS = "gloo group formed"
LOOKS_AT = ("everyone",)
COPIED = ("MASTER_", "VLLM_")
"""Beginnings of the variables that Ray Train sets itself, and that vLLM's executor copies to its workers
(vllm/ray/ray_env.py)."""
NETWORKS = {"NCCL_IB_DISABLE", "NCCL_NET"}
ENDED = ("store", "gloo", "nccl", "barrier", "collective")
OF_NCCL = re.compile(r"(TORCH_)?NCCL_")
WITHIN_A_NODE = re.compile(
    r"NCCL_(P2P_(LEVEL|DISABLE|DIRECT|USE|READ)|NET_GDR|CUMEM|DMABUF|GDR|NVB|PXN|LAUNCH|LOCAL).*"
)
"""Settings of NCCL by which a node moves data within itself: where they differ, one is slower. By all others two nodes
may choose another algorithm or protocol, or other numbers of channels and sizes of what they send."""
OF_MISMATCH = ("truncated",)
"""NCCL's own warnings in that case. Any other warning of it is a cause of its own."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    yield from of_shell(cluster)
    by_name = {name: difference for name in names(cluster) if (difference := differing(cluster, name)) is not None}
    if not by_name:
        return
    majority = all(difference.majority for difference in by_name.values())
    blamed = {name for difference in by_name.values() for name in difference.blamed}
    nodes = [node for node in cluster.nodes if node.name in blamed]
    parts = [f"{name} differs: {values_text(cluster, name, difference)}" for name, difference in by_name.items()]
    yield Finding.about(
        nodes,
        f"{'; '.join(parts)}.",
        unsure=not majority,
        severity="fail" if breaks(cluster, by_name) else "warn",
        evidence=(
            evidence_line(node, name)
            for name, difference in by_name.items()
            for node in cluster.nodes
            if node.name in difference.values
        ),
        fixes=(fix for name, difference in by_name.items() for fix in fixes(cluster, name, difference)),
    )


def of_shell(cluster: Cluster) -> Iterator[Finding]:
    """The settings of the shell that do not reach Ray's workers, which have the raylet's variables."""
    nodes = [node for node in cluster.nodes if node.plan.shell]
    if not nodes:
        return
    missing = sorted({name for node in nodes for name in node.plan.shell})
    matters = any(not name.startswith(COPIED) for name in missing)
    values = {name: next(node.plan.shell[name] for node in nodes if name in node.plan.shell) for name in missing}
    env_vars = ", ".join(f'"{name}": "{value}"' for name, value in values.items() if value)
    yield Finding.about(
        nodes,
        f"{together(missing)} {'is' if len(missing) == 1 else 'are'} set in this shell, and not so in the Ray workers "
        f"on {names_of(nodes)}: Ray's workers have the variables of `ray start` on their node.",
        title="A setting of the shell does not reach Ray's workers",
        severity="warn" if matters else "info",
        evidence=(
            f"{node.name}: {name} is {node.variables.get(name) or 'not set'} in the worker"
            + (f", {value} in this shell" if value else "")
            for node in nodes
            for name, value in node.plan.shell.items()
        ),
        fixes=[
            Fix(
                f'Give it to the job: `ray.init(runtime_env={{"env_vars": {{{env_vars or "..."}}}}})`, or '
                "`ray job submit --runtime-env-json`."
            ),
            Fix("Or unset it in this shell, if the job is not to have it.", option=2),
        ],
    )


def names(cluster: Cluster) -> list[str]:
    """The settings that the backends of the job must have alike on every node."""
    nccl = all(plans_nccl_group(node) for node in cluster.nodes)
    gloo = all(node.plan.gloo_planned for node in cluster.nodes)
    there = {name for node in cluster.nodes for name in node.variables}
    # Misspelled and deprecated names have their own checks.
    there -= {name for node in cluster.nodes for name in node.facts.near_misses} | set(DEPRECATED_VARIABLES)
    must_match = {name for name in there if must_be_alike(name, nccl, gloo)}
    if any(map(settings.counts_ranks_alone, cluster.nodes)):
        must_match.add(settings.IDENTICAL)
    return sorted(must_match)


def differing(cluster: Cluster, name: str) -> Disagreement[str | None] | None:
    nodes = [node for node in cluster.nodes if not (name == GLOO_INTERFACES and not_found(node))]
    if name == "GLOO_DEVICE_TRANSPORT":
        nodes = [node for node in nodes if node not in without_transport(cluster)]
    # What NCCL or torch refuses or misreads has a check of its own.
    own = {
        node.name for node in nodes for bad in unreadable(node) if bad.variable == name and not accepted_by_nccl(bad)
    }
    nodes = [node for node in nodes if node.name not in own]
    ranks = planned_rank_count(cluster)
    return disagreement({node.name: setting_effect(name, value(node, name), ranks) for node in nodes})


def accepted_by_nccl(problem: PlanProblem) -> bool:
    """Return whether it is a value that NCCL takes, and that leaves some calls without an algorithm."""
    return problem.starts and problem.variable == "NCCL_ALGO"


def not_found(node: Node) -> bool:
    """Return whether gloo/interface-not-found says of this node that its names lead nowhere: what was meant is not
    known."""
    choice = node.host.gloo
    return choice is not None and choice.reason == "not-found"


def without_transport(cluster: Cluster) -> set[Node]:
    """Return the nodes whose torch has no such transport, which gloo/init-failed reports (ProcessGroupGloo.cpp)."""
    return {
        rank.node for rank in failed_ranks(cluster, "gloo") if "unsupported gloo device" in (rank.stage.error or "")
    }


def value(node: Node, name: str) -> str | None:
    return node.variables.get(name) or None


def evidence_line(node: Node, name: str) -> str:
    its, file = value(node, name), node.where_set(name)
    return f"{node.name}: {name}={its}{f', from {file}' if file else ''}" if its else f"{node.name}: {name} is not set"


def values_text(cluster: Cluster, name: str, difference: Disagreement[str | None]) -> str:
    """``DETAIL on host1; not set on host0``: the values as they are set, those that amount to the same together."""
    parts = []
    for amount in dict.fromkeys(difference.values.values()):
        its = [
            node for node in cluster.nodes if node.name in difference.values and difference.values[node.name] == amount
        ]
        values = dict.fromkeys(value(node, name) or "not set" for node in its)
        parts.append(f"{together(values)} on {names_of(its)}")
    return "; ".join(parts)


def breaks(cluster: Cluster, differing: dict[str, Disagreement[str | None]]) -> bool:
    """Return whether one of these settings alone stops the job, or decides how the failed connections are made."""
    if any(name in FATAL_SETTINGS for name in differing) or (NETWORKS & set(differing) and networks_differ(cluster)):
        return True
    if set(rdma.ADDRESS_SETTINGS) & set(differing) and rdma.differ_by_settings(cluster):
        return True
    if any(name in GLOO_SETTINGS for name in differing) and any(failed_ranks(cluster, stage) for stage in ENDED):
        return True
    between = [
        difference
        for name, difference in differing.items()
        if OF_NCCL.match(name) and not WITHIN_A_NODE.fullmatch(name)
    ]
    blamed = {name for difference in between for name in difference.blamed}
    return bool(between) and nccl_stops(cluster) and not others_accused(cluster, blamed)


def nccl_stops(cluster: Cluster) -> bool:
    """Return whether NCCL's group, or a collective in it, failed without another reason from NCCL."""
    failed = [rank for stage in ENDED[2:] for rank in failed_ranks(cluster, stage)]
    logs = [rank.rank.nccl for rank in failed if rank.rank.nccl is not None]
    warned = [text for log in logs for text in log.warnings if not any(word in text for word in OF_MISMATCH)]
    return bool(failed) and not warned and not failed_ranks(cluster, "gloo")


def networks_differ(cluster: Cluster) -> bool:
    """Return whether NCCL takes InfiniBand or RoCE on some nodes, and on others is kept from it: these do not
    connect."""
    uses = {rdma.uses_rdma(cluster, node) for node in cluster.nodes if rdma.active_ports(node) and rdma.openable(node)}
    return len(uses) > 1 and not gpus.nccl_made(cluster.nodes)


def others_accused(cluster: Cluster, blamed: set[str]) -> bool:
    """Return whether smaller groups that NCCL was tried in accuse a GPU, a node by itself, or none of these nodes:
    then it is not that two nodes are set unlike."""
    search = groups.group_search(cluster)
    across = groups.cross_search(cluster)
    of_gpus = [search.ranks for search in groups.device_searches(cluster)] + ([across.ranks] if across else [])
    if any(of_gpus) or (search and search.nodes.alone):
        return True
    accused = [*search.nodes.bad, *(node for pair in search.nodes.links for node in pair)] if search else []
    return bool(accused) and not blamed & {node.name for node in accused}


def fixes(cluster: Cluster, name: str, difference: Disagreement[str | None]) -> Iterator[Fix]:
    if name == GLOO_INTERFACES:
        yield from fewer_interfaces_fixes(cluster, difference)
        return
    amounts = list(dict.fromkeys((difference.usual, *difference.values.values())))
    if not difference.majority:
        # What a node without the setting does is right everywhere; a value may not be.
        amounts.sort(key=lambda amount: amount is not None)
    for option, wanted in enumerate(amounts[: 1 if difference.majority else 2], start=1):
        values = {value(node, name): None for node in cluster.nodes if difference.values.get(node.name, "") == wanted}
        meant = next(iter(values), None) if wanted is not None or len(values) == 1 else None
        nodes = [node for node in cluster.nodes if difference.values.get(node.name, wanted) != wanted]
        others = names_of(node for node in cluster.nodes if node not in nodes)
        text = f"Unset {name}" if meant is None else f"Set {name} to {meant}"
        yield Fix.on(nodes, f"{text}, as on {others}." if others else f"{text}.", option, env={name: meant})


def fewer_interfaces_fixes(cluster: Cluster, difference: Disagreement[str | None]) -> Iterator[Fix]:
    """As many interfaces on every node as the node with the fewest names: those that are named first."""
    count = min(int(amount or 1) for amount in difference.values.values())
    for node in cluster.nodes:
        if int(difference.values.get(node.name) or 1) > count:
            kept = ",".join(gloo_device_names(value(node, GLOO_INTERFACES) or "")[:count])
            text = f"Name as many interfaces on {node.name} as on the other nodes: gloo creates a device for each."
            yield Fix.on(node, text, env={GLOO_INTERFACES: kept})
