"""Changes of each node since an earlier run, as lines of the report.

A change is the first suspect of a failure, and no failure by itself: nothing is judged here. Only facts that stay the
same from run to run unless somebody changes them are compared: no times, free space, ports or process ids.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from distdoctor.knowledge.network import is_virtual
from distdoctor.knowledge.settings import OF_BACKENDS
from distdoctor.model.addresses import parse_address
from distdoctor.model.cluster import Cluster, Node, build
from distdoctor.model.facts import Device, FirewallChain, Interface, NodeFacts, RdmaPort, TableRoute
from distdoctor.model.launch_settings import BACKEND, MASTER_ADDR, NNODES, NPROC_PER_NODE, RDZV_BACKEND
from distdoctor.model.report import Report

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
"""Variables of the backends and of library search paths. Variables that differ from job to job are left out."""
MASKS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""Variables that a scheduler sets for each job's own devices."""
SHOWN = 12
"""Limit of the lines per node."""
SINCE = "since the baseline"


def with_changes(report: Report, facts: Sequence[NodeFacts], earlier: Sequence[NodeFacts]) -> Report:
    """Return the report on saved facts with the changes since ``earlier`` among its notes."""
    return replace(report, notes=(*report.notes, *changes(build(facts).nodes, earlier)))


def with_own_changes(report: Report, own: NodeFacts, earlier: Sequence[NodeFacts]) -> Report:
    """Return node 0's report with the changes of this node since its own baseline, where node 0 had none."""
    (node,) = build([own]).nodes
    if not earlier or any(SINCE in note and node.name in note for note in report.notes):
        return report
    return replace(report, notes=(*report.notes, *(line for line in changes((node,), earlier) if SINCE in line)))


def changes(nodes: Iterable[Node], earlier: Sequence[NodeFacts]) -> tuple[str, ...]:
    """Return the changes of each node since ``earlier``, as lines."""
    if not earlier:
        return ()
    nodes = tuple(nodes)
    known = _with_renamed(nodes, _by_host(build(earlier)))
    lines_of_all: list[str] = []
    for node in nodes:
        before = _same_of(node, known.get(node.identity.hostname, ()))
        if before is None:
            if len(known) > 1 or len(nodes) == 1:  # one node's file is for that node
                lines_of_all.append(f"{node.name}: the baseline has no facts of this host")
            continue
        of = f" of {before.name}" if before.identity.hostname != node.identity.hostname else ""
        lines = [f"{node.name}, {SINCE}{of}: {line}" for line in _changes(before, node)]
        more = [f"{node.name}: and {len(lines) - SHOWN} more changes"] if len(lines) > SHOWN else []
        lines_of_all += [*lines[:SHOWN], *more]
    return tuple(lines_of_all)


def _by_host(cluster: Cluster) -> dict[str, tuple[Node, ...]]:
    """Return the nodes of each hostname. One host may have several nodes."""
    by_host: dict[str, tuple[Node, ...]] = {}
    for node in cluster.nodes:
        by_host[node.identity.hostname] = (*by_host.get(node.identity.hostname, ()), node)
    return by_host


def _same_of(node: Node, earlier: Sequence[Node]) -> Node | None:
    """Return the earlier node of the same host and, where the host had several, of the same node rank."""
    return next(
        (node_before for node_before in earlier if node_before.node_rank == node.node_rank),
        earlier[0] if earlier else None,
    )


def _with_renamed(nodes: Sequence[Node], known: dict[str, tuple[Node, ...]]) -> dict[str, tuple[Node, ...]]:
    """Return ``known`` with renamed hosts added, because containers have another hostname each time.

    A host without an earlier node of its name is the unmatched earlier node of the same node rank, unless another host
    is known by name or the machine was rebooted since.
    """
    hosts = {node.identity.hostname for node in nodes}
    unseen = [former for name, formers in known.items() if name not in hosts for former in formers]
    earlier = sum(map(len, known.values()))
    all_new = len(unseen) == earlier == len(nodes)
    by_host = dict(known)
    for node in nodes:
        for former in unseen:
            same = all_new or former.identity.boot_id == node.identity.boot_id != ""
            alone = len(nodes) == earlier == 1
            if (
                node.identity.hostname not in known
                and same
                and (alone or node.node_rank == former.node_rank is not None)
            ):
                by_host[node.identity.hostname] = (*by_host.get(node.identity.hostname, ()), former)
    return by_host


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
        yield from changed_set("RDMA ports", *(map(_port, facts.ports) for facts in (before.rdma, now.rdma)))


def _gpus(before: Sequence[Device], now: Sequence[Device]) -> Iterator[str]:
    if len(before) != len(now):
        yield from changed("number of GPUs", str(len(before)), str(len(now)))
        return
    for name in ("name", "power_limit", "compute_mode", "mig", "ecc", "persistence", "pcie_width"):
        pairs = [(getattr(gpu, name), getattr(other, name)) for gpu, other in zip(before, now, strict=True)]
        known_pairs = [pair for pair in pairs if None not in pair and "" not in pair]
        if known_pairs:
            yield from changed(
                f"GPUs: {name.replace('_', ' ')}", *(tuple(map(str, side)) for side in zip(*known_pairs, strict=True))
            )


def _port(port: RdmaPort) -> str:
    return f"{port.name} {port.state} {f'{port.rate:g} Gb/s' if port.rate else ''}".strip()


def _devices(facts: NodeFacts) -> tuple[str, ...]:
    seen = facts.ranks[0].gpu if facts.ranks else None
    return tuple(device.name for device in seen.visible) if seen else ()


# Comparison of two values, and the line that reports a difference.


LONGEST = 120
NEAR = 0.05
LARGE = 10_000
"""Lower bound of the numbers that are equal if they differ by less than NEAR: the kernel and systemd derive limits from
the size of the memory, which varies a little with each kernel and each start of a virtual machine."""
UNLIMITED = -1


def changed(what: str, *values: object, unset: str = "") -> Iterator[str]:
    """Yield a line if both values are known and differ. With ``unset``, a missing value is known to be unset."""
    before, now = values
    if _same(before, now) or (not unset and (_nothing(before) or _nothing(now))):
        return
    yield f"{what}: {_value_text(before, unset)}, now {_value_text(now, unset)}"


def changed_set(what: str, before: Iterable[str], now: Iterable[str]) -> Iterator[str]:
    """Yield a line with the values that appeared and those that disappeared."""
    old, new = same_set(before), same_set(now)
    gone, come = (tuple(item for item in ours if item not in theirs) for ours, theirs in ((old, new), (new, old)))
    parts = [f"{_value_text(items, '')} {verb}" for items, verb in ((gone, "is gone"), (come, "is new")) if items]
    if parts:
        yield f"{what}: {', '.join(parts)}"


def same_set(values: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct values in sorted order."""
    return tuple(sorted(set(values)))


def _same(before: object, now: object) -> bool:
    numbers, other = _numbers(before), _numbers(now)
    if not numbers or len(numbers) != len(other):
        return before == now
    return all(
        a == b or (min(a, b) >= LARGE and abs(a - b) < NEAR * max(a, b)) for a, b in zip(numbers, other, strict=True)
    )


def _numbers(value: object) -> list[int]:
    """Return the whole numbers of the value (``4096 131072 6291456``); empty if it is anything else."""
    words = value.split() if isinstance(value, str) else [str(value)] if isinstance(value, int) else []
    return [int(word) for word in words] if all(word.isascii() and word.isdecimal() for word in words) else []


def _nothing(value: object) -> bool:
    return value in (None, "", ())


def _value_text(value: object, unset: str) -> str:
    if _nothing(value):
        return unset
    if value == UNLIMITED:
        return "unlimited"
    text = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


# Changes of a host, its network and its link speed.
#
# Differences that another DHCP lease, container or boot of the same host makes are passed over: an address within the
# same network, hardware addresses, and this host's own name and addresses within a line.


LIMITS = {
    "open_files": "open files", "open_files_hard": "open files, hard", "locked_memory": "locked memory (bytes)",
    "file_size": "file size (bytes)", "address_space": "address space (bytes)",
    "data_segment": "data segment (bytes)", "stack": "stack (bytes)", "processes": "processes",
    "processes_hard": "processes, hard", "threads_max": "kernel.threads-max", "pid_max": "kernel.pid_max",
    "unprivileged_port_start": "net.ipv4.ip_unprivileged_port_start", "cpus_online": "processors of the machine",
    "cpus": "processors that it may use",
}  # fmt: skip
OPTIONAL = {
    "pids_max": "processes of the container", "cpu_quota": "processors' worth of the container",
    "cpu_seconds": "processor time (seconds)", "memory": "memory of the container (bytes)",
    "reserved_ports": "net.ipv4.ip_local_reserved_ports", "rdma_devices": "RDMA devices",
}  # fmt: skip
"""Limits for which no value means no limit; older facts lack some of them."""
LASTING = ("HOME", "XDG_CACHE_HOME", "TORCH_HOME", "HF_HOME")
"""Folders that are the same for each job. TMPDIR and caches of compiled code often are a job's own."""
SLOWER = 3.0
"""Factor by which the usual link must have slowed down to be reported: measurements vary."""
BUSY = 0.8
"""Share of this host's processors in use above which the processor may have limited a measurement."""
TAKEN_SLOWLY = 0.5
"""Share of the time above which the receiver, not the link, limited the sender."""
OWN = "this host"


def host_changes(before: Node, now: Node, comparable: bool) -> Iterator[str]:
    """Yield the changes of limits, sysctls, names, interfaces and folders.

    ``comparable``: the same version of distdoctor wrote both, so that a missing value was not there.
    """
    for name, words in LIMITS.items():
        yield from changed(words, getattr(before.limits, name), getattr(now.limits, name))
    for name, words in OPTIONAL.items():
        unset = "none" if comparable else ""
        yield from changed(words, getattr(before.limits, name), getattr(now.limits, name), unset=unset)
    for name in sorted(before.host.sysctls.keys() & now.host.sysctls.keys()):
        yield from changed(name, before.host.sysctls[name], now.host.sysctls[name])
    ranges = [" ".join(map(str, node.limits.port_range or ())) for node in (before, now)]
    yield from changed("net.ipv4.ip_local_port_range", *ranges)
    sizes = [node.limits.shared_memory.size if node.limits.shared_memory else None for node in (before, now)]
    yield from changed("size of /dev/shm (bytes)", *sizes)
    yield from _own_name(before, now)
    yield from _interfaces(before, now)
    for backend in ("gloo", "nccl"):
        picked = [choice.interface if (choice := getattr(node.host, backend)) else None for node in (before, now)]
        yield from changed(f"interface that {backend} picks", *picked)
    paths = [{f.use: f.path for f in node.host.folders or () if f.use in LASTING} for node in (before, now)]
    whole = comparable and before.host.folders is not None and now.host.folders is not None
    for use in sorted(paths[0].keys() | paths[1].keys()):  # only the first use of a shared folder is recorded
        yield from changed(use, paths[0].get(use), paths[1].get(use), unset="no folder of its own" if whole else "")
    kinds = [{f.use: f.filesystem for f in node.host.folders or ()} for node in (before, now)]
    for use in sorted(kinds[0].keys() & kinds[1].keys()):
        yield from changed(f"file system of {use}", kinds[0][use], kinds[1][use])


def _own_name(before: Node, now: Node) -> Iterator[str]:
    means = [same_set(_own_words(node, node.host.own_name.addresses)) for node in (before, now)]
    if means[0] != means[1]:
        addresses = (same_set(node.host.own_name.addresses) for node in (before, now))
        yield from changed("addresses of the own name", *addresses)
    lines = [[line.text for line in node.host.hosts_lines] for node in (before, now)]
    plain = [
        [" ".join(_own_words(node, text.split())) for text in of] for node, of in zip((before, now), lines, strict=True)
    ]
    if same_set(plain[0]) != same_set(plain[1]):
        yield from changed("lines of /etc/hosts about this host", *map(tuple, lines), unset="none")
    yield from changed("look-ups (nsswitch.conf)", before.host.name_sources, now.host.name_sources)


def _own_words(node: Node, words: Iterable[str]) -> list[str]:
    """Return the words without this host's name, and with the interface in place of its addresses."""
    name = node.identity.hostname
    return [OWN if word in (name, name.partition(".")[0]) else node.interface_of(word) or word for word in words]


def _interfaces(before: Node, now: Node) -> Iterator[str]:
    old, new = ({i.name: i for i in node.interfaces if not is_virtual(i.name)} for node in (before, now))
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            yield f"interface {name} is {'gone' if name in old else 'new'}"
            continue
        old_card, other = old[name], new[name]
        lost = {*old_card.addresses} - {*other.addresses}
        if _networks(old_card) != _networks(other) or lost & {*now.master_addresses, now.plan.master_addr}:
            yield from changed(
                f"addresses of {name}", *(same_set(i.addresses) for i in (old_card, other)), unset="none"
            )
        yield from changed(f"MTU of {name}", old_card.mtu, other.mtu)
        yield from changed(f"{name} is up", old_card.up, other.up)
        yield from changed(f"{name} has no ARP", old_card.no_arp, other.no_arp)
        yield from changed(f"speed of {name} (Mbit/s)", old_card.speed, other.speed)
        if old_card.speed and other.speed:
            yield from changed(f"{name} is half duplex", old_card.half_duplex, other.half_duplex)


def _networks(interface: Interface) -> set[str]:
    """Return the networks of an interface without the IPv6 link-local one."""
    networks = set()
    for address, length in zip(interface.addresses, interface.prefix_lengths, strict=False):
        parsed = parse_address(address)
        if parsed is not None and not parsed.is_link_local:
            kept = max(0, parsed.max_prefixlen - length)  # a file may say anything
            networks.add(f"{parsed.version} {int(parsed) >> kept} {length}" if length else address)
    return networks


def network_changes(before: Node, now: Node, reached: bool) -> Iterator[str]:
    """Yield the changes of the route to the others, and of what filters it.

    ``reached``: MASTER_ADDR, as it resolves now, was reached.
    """
    old, new = before.network, now.network
    if not reached and old.master and new.master and old.master.name == new.master.name:
        means = (same_set(facts.addresses) for facts in (old.master, new.master))
        yield from changed(f"addresses of {new.master.name}", *means)
    if old.route and new.route and old.route.target == new.route.target:
        yield from changed(f"way to {new.route.target}", old.route.interface, new.route.interface)
    if old.routes is not None and new.routes is not None:
        yield from changed_set(
            "routes", *(map(_route, filter(_lasting, routes)) for routes in (old.routes, new.routes))
        )
    if old.firewall is not None and new.firewall is not None:  # one probe fills all of these
        yield from changed_set("rules of routing", *([rule.text for rule in facts.policy] for facts in (old, new)))
        lasting = ([name for name in facts.strict if not is_virtual(name)] for facts in (old, new))
        yield from changed_set("interfaces whose rp_filter is strict", *lasting)
    if old.firewall and new.firewall and old.firewall.readable and new.firewall.readable:
        chains = (_blocking(facts.chains) for facts in (old.firewall, new.firewall))
        yield from changed_set("what the packet filter blocks", *chains)


def _lasting(entry: TableRoute) -> bool:
    """Return whether the route leaves by a gateway or rejects, and is not one of this host's container networks."""
    return not is_virtual(entry.interface) and (entry.gateway is not None or entry.reject)


def _route(entry: TableRoute) -> str:
    return f"{entry.network} {'rejected' if entry.reject else f'via {entry.gateway} {entry.interface}'}"


def _blocking(chains: Iterable[FirewallChain]) -> Iterator[str]:
    for chain in chains:
        for rule in chain.blocking_rules or ("",):
            yield f"{chain.hook} {chain.name} policy {chain.policy} {rule}".strip()


def speed_changes(before: Node, now: Node) -> Iterator[str]:
    """Yield the change of link speed, unless this host was busy: a starved process measures the processor, not the
    link."""
    usual, today = _speed(before), _speed(now)
    if usual and today and today * SLOWER < usual:
        yield f"the usual link: {usual / 1e6:,.0f} MB/s, now {today / 1e6:,.0f} MB/s"


def _speed(node: Node) -> float | None:
    """Return bytes per second of this node's usual link: the higher of the measured rate and the kernel's estimate.

    None if something else than the link limited the rate.
    """
    mesh = node.mesh
    if mesh.busy > BUSY or mesh.rate_median is None:
        return None
    if any(rate.receiver_limited > TAKEN_SLOWLY for rate in mesh.rates):
        return None
    estimates = [rate.delivery_rate for rate in mesh.rates if rate.delivery_rate]
    return max(mesh.rate_median, statistics.median(estimates) if estimates else 0.0)
