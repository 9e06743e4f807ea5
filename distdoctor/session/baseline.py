"""What is not as it was in an earlier run: yesterday's facts of a host beside today's, as lines for the report.

It judges nothing: what changed is the first suspect where something fails, and no failure by itself. Only what stays
the same from run to run unless somebody changes it is compared: no times, free space, ports or process ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from distdoctor.knowledge.interfaces import is_virtual
from distdoctor.knowledge.variables import OF_BACKENDS
from distdoctor.model.cluster import Cluster, Node, build
from distdoctor.model.facts import NodeFacts
from distdoctor.model.launch_settings import MASTER_ADDR, NNODES, NPROC_PER_NODE
from distdoctor.model.report import Report

IDENTITY = ("python", "executable", "torch", "torch_path", "cuda", "nccl", "backends", "distdoctor", "user")
LIMITS = (
    "open_files", "open_files_hard", "locked_memory", "file_size", "port_range", "unprivileged_port_start",
    "reserved_ports", "processes", "processes_hard", "pids_max", "threads_max", "cpus", "cpus_online", "memory",
    "rdma_devices",
)  # fmt: skip
COMPARED_VARIABLES = (
    OF_BACKENDS | {"OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}
) - {
    "NCCL_COMM_ID",
    "NCCL_DEBUG_FILE",
}
"""Those of the backends; what differs from job to job by itself is left out."""
LASTING = ("HOME", "XDG_CACHE_HOME", "TORCH_HOME", "HF_HOME")
"""The variables of folders that are the same for each job; TMPDIR, and caches of compiled code, often are a job's own.
"""
SLOWER = 2.0
"""How many times the usual link must have become slower, or faster, to be told: measurements vary."""
SHOWN = 12
"""Lines at most that are told of one node."""
LONGEST = 120


def with_changes(report: Report, facts: Sequence[NodeFacts], earlier: Sequence[NodeFacts]) -> Report:
    """The report on saved facts, with what changed since ``earlier`` among its notes."""
    return replace(report, notes=(*report.notes, *changes(build(facts).nodes, earlier)))


def changes(nodes: Iterable[Node], earlier: Sequence[NodeFacts]) -> tuple[str, ...]:
    """What changed on each node since ``earlier``, as lines; nothing where nothing did."""
    if not earlier:
        return ()
    known, nodes = _by_host(build(earlier)), tuple(nodes)
    told: list[str] = []
    for node in nodes:
        before = known.get(node.identity.hostname)
        if before is None and len(nodes) == len(known) == 1:  # a container has another name each time
            (before,) = known.values()
        if before is None:
            told.append(f"{node.name}: the baseline has no facts of this host")
            continue
        lines = [f"{node.name}, since the baseline: {line}" for line in _changes(before, node)]
        more = [f"{node.name}: and {len(lines) - SHOWN} more changes"] if len(lines) > SHOWN else []
        told += [*lines[:SHOWN], *more]
    return tuple(told)


def _by_host(cluster: Cluster) -> dict[str, Node]:
    """The node of each host name; of several on one host the first."""
    return {node.identity.hostname: node for node in reversed(cluster.nodes)}


def _changes(before: Node, now: Node) -> Iterator[str]:
    for name in IDENTITY:
        yield from _changed(name.replace("_", " "), getattr(before.identity, name), getattr(now.identity, name))
    for setting in (NNODES, NPROC_PER_NODE, MASTER_ADDR):
        yield from _changed(setting.flag, getattr(before.plan, setting.name), getattr(now.plan, setting.name))
    for name in sorted((before.variables.keys() | now.variables.keys()) & COMPARED_VARIABLES):
        yield from _changed(name, before.variables.get(name), now.variables.get(name), unset="not set")
    if before.saw("host") and now.saw("host"):
        yield from _host(before, now)
    if before.saw("network") and now.saw("network"):
        yield from _network(before, now)
    usual, today = before.mesh.rate_median, now.mesh.rate_median
    if usual and today and not 1 / SLOWER < today / usual < SLOWER:
        yield f"the usual link: {usual / 1e6:,.0f} MB/s, now {today / 1e6:,.0f} MB/s"
    if all(node.facts.ranks and node.facts.ranks[0].gpu for node in (before, now)):
        yield from _changed("visible GPUs", _devices(before), _devices(now), unset="none")


def _host(before: Node, now: Node) -> Iterator[str]:
    for name in LIMITS:
        yield from _changed(name.replace("_", " "), getattr(before.limits, name), getattr(now.limits, name))
    sizes = [node.limits.shared_memory.size if node.limits.shared_memory else None for node in (before, now)]
    yield from _changed("size of /dev/shm", *sizes)
    yield from _changed(
        "addresses of the own name", _set(before.system.own_name.addresses), _set(now.system.own_name.addresses)
    )
    lines = [tuple(line.text for line in node.system.hosts_lines) for node in (before, now)]
    yield from _changed("lines of /etc/hosts about this host", *lines, unset="none")
    yield from _changed("look-ups (nsswitch.conf)", before.system.name_sources, now.system.name_sources)
    for backend in ("gloo", "nccl"):
        picked = [choice.interface if (choice := getattr(node.system, backend)) else None for node in (before, now)]
        yield from _changed(f"interface that {backend} picks", *picked)
    old, new = ({i.name: i for i in node.interfaces if not is_virtual(i.name)} for node in (before, now))
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            yield f"interface {name} is {'gone' if name in old else 'new'}"
            continue
        yield from _changed(f"addresses of {name}", _set(old[name].addresses), _set(new[name].addresses), unset="none")
        yield from _changed(f"MTU of {name}", old[name].mtu, new[name].mtu)
        yield from _changed(f"{name} is up", old[name].up, new[name].up)
    paths = [{f.use: f.path for f in node.system.folders or () if f.use in LASTING} for node in (before, now)]
    for use in sorted(paths[0].keys() & paths[1].keys()):
        yield from _changed(use, paths[0][use], paths[1][use])
    kinds = [{f.use: f.filesystem for f in node.system.folders or ()} for node in (before, now)]
    for use in sorted(kinds[0].keys() & kinds[1].keys()):
        yield from _changed(f"file system of {use}", kinds[0][use], kinds[1][use])


def _network(before: Node, now: Node) -> Iterator[str]:
    old, new = before.network, now.network
    if old.master and new.master and old.master.name == new.master.name:
        yield from _changed(f"addresses of {new.master.name}", _set(old.master.addresses), _set(new.master.addresses))
    if old.route and new.route and old.route.target == new.route.target:
        yield from _changed(f"way to {new.route.target}", old.route.interface, new.route.interface)
    if old.firewall and new.firewall and old.firewall.readable and new.firewall.readable:
        filters = [
            _set(f"{c.hook} {c.name} policy {c.policy} {rule}" for c in chains for rule in (c.blocking_rules or ("",)))
            for chains in (old.firewall.chains, new.firewall.chains)
        ]
        yield from _changed("what the packet filter blocks", *filters, unset="nothing")


def _devices(node: Node) -> tuple[str, ...]:
    seen = node.facts.ranks[0].gpu if node.facts.ranks else None
    return tuple(device.name for device in seen.visible) if seen else ()


def _set(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))


def _changed(what: str, *values: object, unset: str = "") -> Iterator[str]:
    """The line where both values, before and now, are known and differ; with ``unset``, what is not there is known."""
    before, now = values
    if before == now or (not unset and (before in (None, "", ()) or now in (None, "", ()))):
        return
    yield f"{what}: {_said(before, unset)}, now {_said(now, unset)}"


def _said(value: object, unset: str) -> str:
    if value in (None, "", ()):
        return unset
    text = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
