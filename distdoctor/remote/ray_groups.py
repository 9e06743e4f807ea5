"""Placement groups of Ray for ``--placement-group``: the check's actors are placed as those of a job would be.

vLLM and OpenRLHF make one group with PACK, verl one STRICT_PACK group for each node, Ray Train one with PACK unless its
ScalingConfig has another placement_strategy (vLLM 0.33, OpenRLHF 0.11, verl 0.9, Ray 2.60).
"""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from distdoctor.model.errors import UsageError
from distdoctor.remote.ray_cluster import PLACE, nodes_with_gpus
from distdoctor.remote.transports import HostTarget, NamedHost

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
ANSWER_SECONDS = 40.0
"""More than the driver takes to give up."""


def in_groups(
    targets: Sequence[HostTarget],
    dead: Sequence[str],
    strategy: str,
    nnodes: int | None,
    ranks: int | None,
    per_gpu: bool,
) -> tuple[HostTarget, ...]:
    """Return a target for each bundle, on the nodes that Ray chose. Raises UsageError if it does not place them all.

    A bundle is one GPU (``per_gpu``) or all GPUs of a node's ranks; in a cluster without GPUs it is one CPU.
    """
    usable = nodes_with_gpus(targets) or targets
    kind = "GPU" if usable[0].gpus else "CPU"
    each = ranks or max(one.gpus for one in usable) or 1
    nodes, count = nnodes or len(usable), each if per_gpu else 1
    size = each if kind == "GPU" and not per_gpu else 1
    bundles = [{kind: size}] * count
    groups = [bundles] * nodes if strategy == "STRICT_PACK" else [bundles * nodes]
    answer = _placed(targets, {"groups": groups, "strategy": strategy})
    if "nodes" not in answer:
        raise UsageError(f"--placement-group: {'; '.join((*_why_not(targets, groups, strategy, answer), *dead))}")
    by_id = {one.before[PLACE]: one for one in targets}
    order = {node: number for number, node in enumerate(by_id)}
    placed = [(node, f"{group}/{n}") for group, chosen in enumerate(answer["nodes"]) for n, node in enumerate(chosen)]
    several = Counter(node for node, _ in placed)
    numbers: Counter[str] = Counter()
    found = []
    for node, bundle in sorted(placed, key=lambda one: order[one[0]]):
        one = by_id[node]
        name = f"{one.host.name}-bundle{numbers[node]}" if several[node] > 1 else one.host.name
        numbers[node] += 1
        before = (*one.before[:PLACE], bundle, str(size if kind == "GPU" else 0))
        host = NamedHost(name, 1 if per_gpu else each)
        found.append(replace(one, host=host, before=before, shares=several[node] > 1))
    return tuple(found)


def _placed(targets: Sequence[HostTarget], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the driver's answer. Raises UsageError if there is none."""
    with socket.socket(socket.AF_UNIX) as to:
        to.settimeout(ANSWER_SECONDS)
        try:
            to.connect(targets[0].before[PLACE - 1])
            to.sendall(json.dumps(wanted).encode())
            answer: dict[str, Any] = json.loads(to.makefile().readline() or "{}")
        except (OSError, ValueError) as err:
            raise UsageError(f"--placement-group: Ray's driver gave no answer: {err}") from None
    if "error" in answer:
        raise UsageError(f"--placement-group: {answer['error']}")
    return answer


def _why_not(
    targets: Sequence[HostTarget],
    groups: Sequence[Sequence[Mapping[str, int]]],
    strategy: str,
    state: Mapping[str, Any],
) -> Iterator[str]:
    """Yield what Ray did not place, how many bundles have room, and who has the rest."""
    ((kind, size),) = groups[0][0].items()
    wanted = sum(map(len, groups))
    by_id = {one.before[PLACE]: one for one in targets}
    total = {node: one.gpus if kind == "GPU" else one.cpus for node, one in by_id.items()}
    free = {node: float(state["free"].get(node, {}).get(kind, 0)) for node in by_id}
    bundles = f"{wanted} bundle{'s' * (wanted > 1)} of {size} {kind}{'s' * (size > 1)} ({strategy})"
    now, most = (min(wanted, _room(amounts, size, strategy, len(groups[0]))) for amounts in (free, total))
    yield f"Ray did not place {bundles}: there is room for {now} of them"
    yield f"without other jobs there is room for {'all' if most == wanted else most}"
    nodes = ", ".join(f"{by_id[n].host.name} {free[n]:g} of {total[n]} {kind}s" for n in by_id if total[n])
    yield f"free: {nodes or f'no {kind}'}"
    yield from _holders(by_id, free, total, kind, state)


def _room(resources: Mapping[str, float], size: int, strategy: str, together: int) -> int:
    """Return how many bundles of ``size`` these nodes have room for; with STRICT_PACK, in groups on one node each."""
    fits = [int(amount // size) for amount in resources.values()]
    if strategy == "STRICT_SPREAD":
        return sum(map(bool, fits))
    return sum(fit // together * together for fit in fits) if strategy == "STRICT_PACK" else sum(fits)


def _holders(
    by_id: Mapping[str, HostTarget], free: Mapping[str, float], total: Mapping[str, int], kind: str,
    state: Mapping[str, Any],
) -> Iterator[str]:  # fmt: skip
    """Yield the placement groups that hold resources, with their jobs, and what others hold."""
    rest = {node: total[node] - free[node] for node in by_id}
    for group in state["groups"]:
        held: Counter[str] = Counter()
        for node, bundle in group["bundles"]:
            held[node] += int(bundle.get(kind, 0))
        places = ", ".join(f"{n} on {by_id[node].host.name}" for node, n in held.items() if n and node in by_id)
        for node, amount in held.items():
            rest[node] = rest.get(node, 0) - amount
        if places:
            job = group["id"][-8:]
            name = group["name"] or group["id"][:8]
            yield f"placement group {name} of job {job}{_of_job(state['jobs'].get(job))} holds {places}"
    others = ", ".join(f"{amount:g} on {by_id[node].host.name}" for node, amount in rest.items() if amount > 0)
    if others:
        yield f"actors and tasks outside placement groups hold {others}"


def _of_job(entrypoint: str | None) -> str:
    return f", {entrypoint}," if entrypoint else ""
