"""What is not as it was of a host, its network and the speed of its links.

What another lease, container or start of the same host changes by itself is passed over: an address within the same
network, hardware addresses, and where this host's own name and addresses stand in what names it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator

from distdoctor.knowledge.interfaces import is_virtual
from distdoctor.model.addresses import parse_address
from distdoctor.model.cluster import Node
from distdoctor.model.facts import FirewallChain, Interface, TableRoute
from distdoctor.session.changed import changed, changed_set, same_set

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
"""Where nothing is seen, there is none; older facts lack some."""
LASTING = ("HOME", "XDG_CACHE_HOME", "TORCH_HOME", "HF_HOME")
"""The variables of folders that are the same for each job; TMPDIR, and caches of compiled code, often are a job's own.
"""
SLOWER = 3.0
"""How many times slower the usual link must have become to be told: measurements vary."""
BUSY = 0.8
"""The share of this host's processors in use above which what was measured may be the processor."""
TAKEN_SLOWLY = 0.5
"""The share of the time above which it was the receiver that held the sender up, and not the link."""
OWN = "this host"


def host_changes(before: Node, now: Node, comparable: bool) -> Iterator[str]:
    """Of the host. ``comparable``: the same distdoctor looked at it, so that what it did not see was not there."""
    for name, words in LIMITS.items():
        yield from changed(words, getattr(before.limits, name), getattr(now.limits, name))
    for name, words in OPTIONAL.items():
        unset = "none" if comparable else ""
        yield from changed(words, getattr(before.limits, name), getattr(now.limits, name), unset=unset)
    for name in sorted(before.system.sysctls.keys() & now.system.sysctls.keys()):
        yield from changed(name, before.system.sysctls[name], now.system.sysctls[name])
    ranges = [" ".join(map(str, node.limits.port_range or ())) for node in (before, now)]
    yield from changed("net.ipv4.ip_local_port_range", *ranges)
    sizes = [node.limits.shared_memory.size if node.limits.shared_memory else None for node in (before, now)]
    yield from changed("size of /dev/shm (bytes)", *sizes)
    yield from _own_name(before, now)
    yield from _interfaces(before, now)
    for backend in ("gloo", "nccl"):
        picked = [choice.interface if (choice := getattr(node.system, backend)) else None for node in (before, now)]
        yield from changed(f"interface that {backend} picks", *picked)
    paths = [{f.use: f.path for f in node.system.folders or () if f.use in LASTING} for node in (before, now)]
    whole = comparable and before.system.folders is not None and now.system.folders is not None
    for use in sorted(paths[0].keys() | paths[1].keys()):  # of several uses of one folder, the first alone is kept
        yield from changed(use, paths[0].get(use), paths[1].get(use), unset="no folder of its own" if whole else "")
    kinds = [{f.use: f.filesystem for f in node.system.folders or ()} for node in (before, now)]
    for use in sorted(kinds[0].keys() & kinds[1].keys()):
        yield from changed(f"file system of {use}", kinds[0][use], kinds[1][use])


def _own_name(before: Node, now: Node) -> Iterator[str]:
    means = [same_set(_own_words(node, node.system.own_name.addresses)) for node in (before, now)]
    if means[0] != means[1]:
        told = (same_set(node.system.own_name.addresses) for node in (before, now))
        yield from changed("addresses of the own name", *told)
    lines = [[line.text for line in node.system.hosts_lines] for node in (before, now)]
    plain = [
        [" ".join(_own_words(node, text.split())) for text in of] for node, of in zip((before, now), lines, strict=True)
    ]
    if same_set(plain[0]) != same_set(plain[1]):
        yield from changed("lines of /etc/hosts about this host", *map(tuple, lines), unset="none")
    yield from changed("look-ups (nsswitch.conf)", before.system.name_sources, now.system.name_sources)


def _own_words(node: Node, words: Iterable[str]) -> list[str]:
    """The words with the interface for an address of this host's, and without its name."""
    name = node.identity.hostname
    return [OWN if word in (name, name.partition(".")[0]) else node.interface_of(word) or word for word in words]


def _interfaces(before: Node, now: Node) -> Iterator[str]:
    old, new = ({i.name: i for i in node.interfaces if not is_virtual(i.name)} for node in (before, now))
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            yield f"interface {name} is {'gone' if name in old else 'new'}"
            continue
        one, other = old[name], new[name]
        lost = {*one.addresses} - {*other.addresses}
        if _networks(one) != _networks(other) or lost & {*now.master_addresses, now.plan.master_addr}:
            yield from changed(f"addresses of {name}", *(same_set(i.addresses) for i in (one, other)), unset="none")
        yield from changed(f"MTU of {name}", one.mtu, other.mtu)
        yield from changed(f"{name} is up", one.up, other.up)
        yield from changed(f"{name} has no ARP", one.no_arp, other.no_arp)
        yield from changed(f"speed of {name} (Mbit/s)", one.speed, other.speed)
        if one.speed and other.speed:
            yield from changed(f"{name} is half duplex", one.half_duplex, other.half_duplex)


def _networks(interface: Interface) -> set[str]:
    """The networks of an interface, but for the link's own one of IPv6."""
    found = set()
    for address, length in zip(interface.addresses, interface.prefix_lengths, strict=False):
        parsed = parse_address(address)
        if parsed is not None and not parsed.is_link_local:
            kept = max(0, parsed.max_prefixlen - length)  # a file may say anything
            found.add(f"{parsed.version} {int(parsed) >> kept} {length}" if length else address)
    return found


def network_changes(before: Node, now: Node, reached: bool) -> Iterator[str]:
    """Of the way to the others. ``reached``: the master was, by what its name means now."""
    old, new = before.network, now.network
    if not reached and old.master and new.master and old.master.name == new.master.name:
        means = (same_set(one.addresses) for one in (old.master, new.master))
        yield from changed(f"addresses of {new.master.name}", *means)
    if old.route and new.route and old.route.target == new.route.target:
        yield from changed(f"way to {new.route.target}", old.route.interface, new.route.interface)
    if old.routes is not None and new.routes is not None:
        yield from changed_set(
            "routes", *(map(_route, filter(_lasting, routes)) for routes in (old.routes, new.routes))
        )
    if old.firewall is not None and new.firewall is not None:  # all of these are read at once
        yield from changed_set("rules of routing", *([rule.text for rule in one.policy] for one in (old, new)))
        lasting = ([name for name in one.strict if not is_virtual(name)] for one in (old, new))
        yield from changed_set("interfaces whose rp_filter is strict", *lasting)
    if old.firewall and new.firewall and old.firewall.readable and new.firewall.readable:
        chains = (_blocking(one.chains) for one in (old.firewall, new.firewall))
        yield from changed_set("what the packet filter blocks", *chains)


def _lasting(entry: TableRoute) -> bool:
    """Whether it is no route of a network of this host's containers, or of the link itself."""
    return not is_virtual(entry.interface) and (entry.gateway is not None or entry.reject)


def _route(entry: TableRoute) -> str:
    return f"{entry.network} {'rejected' if entry.reject else f'via {entry.gateway} {entry.interface}'}"


def _blocking(chains: Iterable[FirewallChain]) -> Iterator[str]:
    for chain in chains:
        for rule in chain.blocking_rules or ("",):
            yield f"{chain.hook} {chain.name} policy {chain.policy} {rule}".strip()


def speed_changes(before: Node, now: Node) -> Iterator[str]:
    """Of the links, where this host was not busy meanwhile: what a starved process measures is no link's speed."""
    usual, today = _speed(before), _speed(now)
    if usual and today and today * SLOWER < usual:
        yield f"the usual link: {usual / 1e6:,.0f} MB/s, now {today / 1e6:,.0f} MB/s"


def _speed(node: Node) -> float | None:
    """Bytes per second of this node's usual link, by the better of what arrived and of the kernel's own estimate; None
    where that was not the link's doing."""
    mesh = node.mesh
    if mesh.busy > BUSY or mesh.rate_median is None:
        return None
    if any(rate.receiver_limited > TAKEN_SLOWLY for rate in mesh.rates):
        return None
    estimates = [rate.delivery_rate for rate in mesh.rates if rate.delivery_rate]
    return max(mesh.rate_median, statistics.median(estimates) if estimates else 0.0)
