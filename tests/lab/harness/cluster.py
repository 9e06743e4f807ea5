"""A cluster of real hosts on this machine.

Every host is a set of Linux namespaces: its own interfaces, addresses, packet filter, host name, processes,
/etc/hosts, /etc/resolv.conf, /dev/shm and temporary folders. A switch, in namespaces of its own, holds the bridges
that join them. The machine's own network is never touched, and everything is gone when the context ends, also when
the process that built it is killed.

    with Cluster(2) as cluster:
        cluster[0].run(["getent", "hosts", "host1"])
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from tests.lab.harness.host import SHARED, Host
from tests.lab.harness.namespaces import Anchor, LabUnavailable, run, why_not

FIRST = 10
"""The number of host 0 in every subnet."""


class Cluster:
    """``hosts`` hosts (a number, or their names) on one network; a context manager.

    ``subnets``: every host gets number 10 + its index in each, IPv4 or IPv6. ``interface``: the name of the network
    interface, one for all or one per host. ``peers_in_hosts_file`` writes every host's first address into every
    host's /etc/hosts; without it only its own is there. ``shown``: folders that the hosts see, though they lie below
    /tmp, where each host has its own; without it only this checkout and this Python are. Raises LabUnavailable where
    no lab can be built.
    """

    def __init__(
        self,
        hosts: int | Sequence[str] = 2,
        *,
        subnets: Sequence[str] = ("10.77.0.0/24",),
        interface: str | Sequence[str] = "eth0",
        peers_in_hosts_file: bool = True,
        shown: Sequence[Path] = (),
    ) -> None:
        self.names = [f"host{i}" for i in range(hosts)] if isinstance(hosts, int) else list(hosts)
        self.subnets = [ipaddress.ip_network(subnet) for subnet in subnets]
        self.interfaces = [interface] * len(self.names) if isinstance(interface, str) else list(interface)
        self.peers_in_hosts_file = peers_in_hosts_file
        self.shown = shown
        self.hosts: list[Host] = []
        self._switch: Anchor | None = None
        self._bridges: dict[str, int] = {}

    def __getitem__(self, index: int) -> Host:
        return self.hosts[index]

    def __len__(self) -> int:
        return len(self.hosts)

    def __iter__(self) -> Iterator[Host]:
        return iter(self.hosts)

    def by_name(self, name: str) -> Host:
        """The host of that name. Raises KeyError."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise KeyError(name)

    def __enter__(self) -> Cluster:
        reason = why_not()
        if reason is not None:
            raise LabUnavailable(reason)
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill every process of every host and the switch; all namespaces go with them."""
        if self._switch is not None:
            self._switch.close()
        for host in self.hosts:
            host.close()

    def _build(self) -> None:
        self._switch = Anchor()
        run([*self._switch.enter("--mount"), "mount", "-t", "tmpfs", "-o", "mode=1777", "lab", SHARED])
        for index, name in enumerate(self.names):
            host = Host(self, index, name, self._switch)
            self.hosts.append(host)
            numbers = [net[FIRST + index] for net in self.subnets]
            host.add_interface(
                self.interfaces[index],
                *(f"{number}/{net.prefixlen}" for number, net in zip(numbers, self.subnets, strict=True)),
                bridge="lan",
            )
            host.addresses = [str(number) for number in numbers]
        self.write_hosts_files()

    def write_hosts_files(self) -> None:
        """Give every host the /etc/hosts it starts with."""
        for host in self.hosts:
            lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
            for other in self.hosts if self.peers_in_hosts_file else [host]:
                first_label = other.name.partition(".")[0]
                names = other.name if first_label == other.name else f"{other.name} {first_label}"
                lines += [f"{address} {names}" for address in other.addresses]
            host.hosts_file = "\n".join(lines) + "\n"

    def plug(self, host: Host, interface: str, bridge: str) -> None:
        """Lay a cable from a new ``interface`` of ``host`` to ``bridge``, which is made where it is not there."""
        assert self._switch is not None
        switch = self._switch.enter("--net")
        if bridge not in self._bridges:
            self._bridges[bridge] = 0
            run([*switch, "ip", "link", "add", bridge, "type", "bridge"])
            run([*switch, "ip", "link", "set", bridge, "up"])
        self._bridges[bridge] += 1
        port = f"{bridge}-p{self._bridges[bridge]}"
        peer = ["peer", "name", interface, "netns", str(host.anchor.pid)]
        run([*switch, "ip", "link", "add", port, "type", "veth", *peer])
        run([*switch, "ip", "link", "set", port, "master", bridge, "up"])
        host.inside(f"ip link set {interface} up")

    def put(self, name: str, text: str) -> str:
        """Write a file that every host may read. Gives its path inside."""
        self.shared.joinpath(name).write_text(text)
        return f"{SHARED}/{name}"

    @property
    def shared(self) -> Path:
        """Return where this process finds the folder that all hosts have in common, ``SHARED`` in there."""
        assert self._switch is not None
        return self._switch.path(SHARED)

    def in_switch(self, script: str) -> str:
        """Run a shell script as root in the switch, whose bridges join the hosts. Raises RuntimeError."""
        assert self._switch is not None
        return run([*self._switch.enter(), "sh", "-c", script])

    def leftovers(self) -> list[str]:
        """Return what is left on any host, each with the host's name."""
        return [f"{host.name}: {what}" for host in self.hosts for what in host.leftovers()]
