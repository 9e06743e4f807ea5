"""What is not as it was in an earlier run: yesterday's facts of a host beside today's, as lines for the report.

It judges nothing: what changed is the first suspect where something fails, and no failure by itself. Only what stays
the same from run to run unless somebody changes it is compared: no times, free space, ports or process ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from distdoctor.knowledge.variables import OF_BACKENDS
from distdoctor.model.cluster import Cluster, Node, build
from distdoctor.model.facts import Device, NodeFacts, RdmaPort
from distdoctor.model.launch_settings import BACKEND, MASTER_ADDR, NNODES, NPROC_PER_NODE, RDZV_BACKEND
from distdoctor.model.report import Report
from distdoctor.session.changed import changed, changed_set
from distdoctor.session.changed_host import host_changes, network_changes, speed_changes

VERSIONS = (
    "kernel", "libc", "python", "executable", "torch", "torch_path", "cuda", "nccl", "backends", "distdoctor", "user",
)  # fmt: skip
DRIVER = ("module", "library", "cuda", "iommu", "acs", "imex_channels")
COMPARED_VARIABLES = (
    OF_BACKENDS
    | {"OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"}
    | {"LD_LIBRARY_PATH", "LD_PRELOAD"}
) - {
    name
    for name in OF_BACKENDS
    if name.endswith(("_TEMP_FILE", "_PIPE_FILE", "DEBUG_FILE", "_DUMP_FILE", "_COMM_ID", "_HOSTID", "_UUID", "_MAGIC"))
}
"""Those of the backends, and where libraries are loaded from; what differs from job to job by itself is left out."""
MASKS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""A scheduler gives each job its own devices."""
SHOWN = 12
"""Lines at most that are told of one node."""
SINCE = "since the baseline"


def with_changes(report: Report, facts: Sequence[NodeFacts], earlier: Sequence[NodeFacts]) -> Report:
    """The report on saved facts, with what changed since ``earlier`` among its notes."""
    return replace(report, notes=(*report.notes, *changes(build(facts).nodes, earlier)))


def with_own_changes(report: Report, own: NodeFacts, earlier: Sequence[NodeFacts]) -> Report:
    """Node 0's report, with what changed here since a baseline that this node has of itself, where node 0 had none."""
    (node,) = build([own]).nodes
    if not earlier or any(SINCE in note and node.name in note for note in report.notes):
        return report
    return replace(report, notes=(*report.notes, *(line for line in changes((node,), earlier) if SINCE in line)))


def changes(nodes: Iterable[Node], earlier: Sequence[NodeFacts]) -> tuple[str, ...]:
    """What changed on each node since ``earlier``, as lines; nothing where nothing did."""
    if not earlier:
        return ()
    nodes = tuple(nodes)
    known = _with_renamed(nodes, _by_host(build(earlier)))
    told: list[str] = []
    for node in nodes:
        before = _same_of(node, known.get(node.identity.hostname, ()))
        if before is None:
            if len(known) > 1 or len(nodes) == 1:  # one node's file is for that node
                told.append(f"{node.name}: the baseline has no facts of this host")
            continue
        of = f" of {before.name}" if before.identity.hostname != node.identity.hostname else ""
        lines = [f"{node.name}, {SINCE}{of}: {line}" for line in _changes(before, node)]
        more = [f"{node.name}: and {len(lines) - SHOWN} more changes"] if len(lines) > SHOWN else []
        told += [*lines[:SHOWN], *more]
    return tuple(told)


def _by_host(cluster: Cluster) -> dict[str, tuple[Node, ...]]:
    """The nodes of each host name: on one host there may be several."""
    found: dict[str, tuple[Node, ...]] = {}
    for node in cluster.nodes:
        found[node.identity.hostname] = (*found.get(node.identity.hostname, ()), node)
    return found


def _same_of(node: Node, earlier: Sequence[Node]) -> Node | None:
    """Of a host's earlier nodes the one with this node's rank, where it had several."""
    return next((one for one in earlier if one.node_rank == node.node_rank), earlier[0] if earlier else None)


def _with_renamed(nodes: Sequence[Node], known: dict[str, tuple[Node, ...]]) -> dict[str, tuple[Node, ...]]:
    """Containers have other names each time: a host that is not known by its name is the one of the same node rank that
    is not seen by its own, where none is known by name or the machine has not been started anew since."""
    hosts = {node.identity.hostname for node in nodes}
    unseen = [one for name, ones in known.items() if name not in hosts for one in ones]
    earlier = sum(map(len, known.values()))
    all_new = len(unseen) == earlier == len(nodes)
    found = dict(known)
    for node in nodes:
        for one in unseen:
            same = all_new or one.identity.boot_id == node.identity.boot_id != ""
            alone = len(nodes) == earlier == 1
            if node.identity.hostname not in known and same and (alone or node.node_rank == one.node_rank is not None):
                found[node.identity.hostname] = (*found.get(node.identity.hostname, ()), one)
    return found


def _changes(before: Node, now: Node) -> Iterator[str]:
    for name in VERSIONS:
        yield from changed(name.replace("_", " "), getattr(before.identity, name), getattr(now.identity, name))
    yield from _driver(before.facts, now.facts)
    for setting in (NNODES, NPROC_PER_NODE, BACKEND, RDZV_BACKEND):
        yield from changed(setting.flag, getattr(before.plan, setting.name), getattr(now.plan, setting.name))
    reached = now.meeting.joined or now.meeting.hosted
    if not reached and not (before.network.master_is_own and now.network.master_is_own):
        yield from changed(MASTER_ADDR.flag, before.plan.master_addr, now.plan.master_addr)
    names = COMPARED_VARIABLES if any(name.startswith("SLURM_") for name in now.variables) else _with_masks()
    for name in sorted((before.variables.keys() | now.variables.keys()) & names):
        yield from changed(name, before.variables.get(name), now.variables.get(name), unset="not set")
    if before.saw("host") and now.saw("host"):
        yield from host_changes(before, now, comparable=before.identity.distdoctor == now.identity.distdoctor)
    if before.saw("network") and now.saw("network"):
        yield from network_changes(before, now, reached)
    yield from speed_changes(before, now)


def _with_masks() -> frozenset[str]:
    return COMPARED_VARIABLES | {*MASKS}


def _driver(before: NodeFacts, now: NodeFacts) -> Iterator[str]:
    if before.driver and now.driver and not before.driver.error and not now.driver.error:
        for name in DRIVER:
            yield from changed(f"GPU driver: {name}", getattr(before.driver, name), getattr(now.driver, name))
        yield from _gpus(before.driver.devices, now.driver.devices)
    if all(facts.ranks and facts.ranks[0].gpu for facts in (before, now)):
        yield from changed("visible GPUs", _devices(before), _devices(now), unset="none")
    logs = [facts.ranks[0].nccl if facts.ranks else None for facts in (before, now)]
    if logs[0] and logs[1]:
        yield from changed("NCCL", logs[0].version, logs[1].version)
        yield from changed("network of NCCL", logs[0].network, logs[1].network)
    if before.rdma and now.rdma:
        yield from changed_set("RDMA ports", *(map(_port, one.ports) for one in (before.rdma, now.rdma)))


def _gpus(before: Sequence[Device], now: Sequence[Device]) -> Iterator[str]:
    if len(before) != len(now):
        yield from changed("number of GPUs", str(len(before)), str(len(now)))
        return
    for name in ("name", "power_limit", "compute_mode", "mig", "ecc", "persistence", "pcie_width"):
        pairs = [(getattr(one, name), getattr(other, name)) for one, other in zip(before, now, strict=True)]
        told = [pair for pair in pairs if None not in pair and "" not in pair]
        if told:
            yield from changed(
                f"GPUs: {name.replace('_', ' ')}", *(tuple(map(str, side)) for side in zip(*told, strict=True))
            )


def _port(port: RdmaPort) -> str:
    return f"{port.name} {port.state} {f'{port.rate:g} Gb/s' if port.rate else ''}".strip()


def _devices(facts: NodeFacts) -> tuple[str, ...]:
    seen = facts.ranks[0].gpu if facts.ranks else None
    return tuple(device.name for device in seen.visible) if seen else ()
