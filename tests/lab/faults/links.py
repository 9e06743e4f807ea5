"""Faults of interfaces, routes, the switch, and what a link does to packets."""

from __future__ import annotations

import sys
from shlex import quote

from tests.lab.faults import everywhere, inside, together
from tests.lab.faults.names import own_name_at
from tests.lab.faults.packet_filter import nft
from tests.lab.harness.launch import PORT, Fault, Launch

FLAPS = """
import fcntl, os, socket, struct, sys, time
open("/run/flaps.pid", "w").write(str(os.getpid()))
asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def switch(flags): fcntl.ioctl(asked, 0x8914, struct.pack("16sh14x", b"eth0", flags))
def joined():
    rows = [row.split() for table in ("tcp", "tcp6") for row in open(f"/proc/net/{table}").readlines()[1:]]
    others = [row for row in rows if row[1].partition(":")[0] != row[2].partition(":")[0]]
    return any(":733C" in row[1] + row[2] and row[3] == "01" for row in others)
while sys.argv[4:] and not joined(): time.sleep(0.02)
for number in range(int(sys.argv[1])):
    time.sleep(float(sys.argv[2]))
    switch(0x1002)
    time.sleep(float(sys.argv[3]))
    switch(0x1003)
"""
"""SIOCSIFFLAGS with IFF_UP and without: one process, as a shell would have one for each sleep. With a fourth argument
it begins once this host has a connection with another one at port 29500 (733C)."""


def second_network(*addresses: str, interface: str = "eth1", joined: bool = False) -> Fault:
    """Host i gets another interface with the i-th address (with /prefix; empty: none), on a network that joins them
    or, by default, leads nowhere."""

    def inject(launch: Launch) -> None:
        for host, address in zip(launch.cluster, addresses, strict=True):
            if address:
                bridge = "second" if joined else f"alone{host.index}"
                host.add_interface(interface, address, bridge=bridge)

    return inject


def plugged(on: int, interface: str, address: str, bridge: str = "lan") -> Fault:
    """Host ``on`` has one more interface with this address (with /prefix), plugged into ``bridge`` of the switch."""
    return lambda launch: launch.cluster[on].add_interface(interface, address, bridge=bridge)


def second_card(on: int, address: str, network: str = "10.77.0.0/24") -> Fault:
    """Host ``on`` has one more interface in the LAN's own network, plugged in elsewhere, and prefers it."""
    prefer = f"ip route del {network} dev eth0 && ip route add {network} dev eth0 metric 200"
    return together(plugged(on, "eth1", address, "elsewhere"), inside(on, prefer))


def bystander_at(address: str) -> Fault:
    """The last host takes no part in the job, and has this address (with /prefix) besides its own."""

    def inject(launch: Launch) -> None:
        host = launch.cluster[len(launch.cluster) - 1]
        host.add_interface("eth1", address, bridge="lan")
        launch.starts = [start for start in launch.starts if start.host is not host]
        for start in launch.starts:
            start.flags["--nnodes"] = str(len(launch.starts))

    return inject


def same_card(*hosts: int) -> Fault:
    """The named hosts' cards have one hardware address, as clones of a virtual machine do."""
    return together(*(inside(index, "ip link set dev eth0 address 52:54:00:12:34:56") for index in hosts))


def other_card(on: int) -> Fault:
    """Host ``on`` has a hardware address of its own, and nobody remembers another one."""
    return together(
        inside(on, "ip link set dev eth0 address 52:54:00:12:34:57"), everywhere("ip neighbour flush dev eth0")
    )


def docker0(*hosts: int) -> Fault:
    """The named hosts have docker's bridge, at the address it has everywhere."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            launch.cluster[index].add_interface("docker0", "172.17.0.1/16")

    return inject


def other_subnet(on: int, address: str) -> Fault:
    """Host ``on`` has this address (with /prefix) only, and no default route."""
    return inside(on, f"ip address flush dev eth0 && ip address add {address} dev eth0")


def cut_in_switch(left: tuple[int, ...], right: tuple[int, ...]) -> Fault:
    """The switch lets no new connection through between the two sides, but for those to and from MASTER_PORT."""

    def inject(launch: Launch) -> None:
        hosts = launch.cluster
        pairs = [(hosts[a].address, hosts[b].address) for a in left for b in right]
        rules = "\n".join(
            f"ip saddr {a} ip daddr {b} tcp dport != {PORT} tcp flags & (syn | ack) == syn drop"
            for one, other in pairs
            for a, b in ((one, other), (other, one))
        )
        hosts.in_switch(
            "nft -f - <<'END'\ntable bridge switch {\nchain forward {\ntype filter hook forward priority 0; "
            f"policy accept;\n{rules}\n}}\n}}\nEND"
        )

    return inject


def dropped_in_switch(match: str) -> Fault:
    """The switch drops what ``match`` (of nft) says, as a cloud's security group does: on no host is there a rule."""

    def inject(launch: Launch) -> None:
        chain = f"chain forward {{\ntype filter hook forward priority 0; policy accept;\n{match} drop\n}}"
        launch.cluster.in_switch(f"nft -f - <<'END'\ntable bridge switch {{\n{chain}\n}}\nEND")

    return inject


def switch_repaired(launch: Launch) -> None:
    """The switch lets everything through again."""
    launch.cluster.in_switch("nft delete table bridge switch")


def cable(on: int, state: str, bridge: str = "lan") -> Fault:
    """The cable between host ``on`` and this bridge of the switch is out ("down") or in ("up")."""
    return lambda launch: [launch.cluster.in_switch(f"ip link set {bridge}-p{on + 1} {state}")].clear()


def kept_apart(*hosts: int) -> Fault:
    """The switch lets nothing through between the named hosts' own ports, as private VLANs and isolated ports do."""

    def inject(launch: Launch) -> None:
        for host in hosts:
            _isolated(launch, host, "on")

    return inject


def ports_joined(launch: Launch) -> None:
    """The switch keeps no ports apart."""
    for host in range(len(launch.cluster)):
        _isolated(launch, host, "off")


def _isolated(launch: Launch, host: int, how: str) -> None:
    launch.cluster.in_switch(f"ip link set dev lan-p{host + 1} type bridge_slave isolated {how}")


def jumbo_frames(launch: Launch) -> None:
    """Every interface, and every port of the switch, takes frames of 9000 bytes."""
    everywhere("ip link set dev eth0 mtu 9000")(launch)
    ports = "$(ls /sys/class/net | grep '^lan')"
    launch.cluster.in_switch(f"mount -t sysfs lab /sys && for port in {ports}; do ip link set dev $port mtu 9000; done")


def slow(*hosts: int, rate: str = "10mbit", interface: str = "eth0") -> Fault:
    """Return what the named hosts send is held to this rate."""
    shaper = f"tc qdisc add dev {interface} root tbf rate {rate} burst 32kbit latency 100ms"
    return together(*(inside(index, shaper) for index in hosts))


def shapers_removed(launch: Launch) -> None:
    """No host holds back what it sends."""
    everywhere("tc qdisc del dev eth0 root 2>/dev/null || true")(launch)


def loses(on: int, percent: int) -> Fault:
    """Host ``on`` loses so many of a hundred small packets from others."""
    return nft(on, f'iifname "eth0" meta length < 400 numgen random mod 100 < {percent} drop')


def damages(on: int) -> Fault:
    """The network card of host ``on`` damages two bytes of each large packet that comes in."""
    return nft(on, 'iifname "eth0" meta length > 8000 @th,1600,16 set 0xdead')


def card_changed(on: int) -> Fault:
    """Host ``on`` has a network card that damages nothing."""
    return inside(on, "nft delete table inet filter")


def behind_nat(network: str) -> Fault:
    """Host 1 is in this network (``10.5.0``), behind host 2, which masquerades and takes no part in the job."""

    def inject(launch: Launch) -> None:
        _, inner, router = launch.cluster
        inner.add_interface("eth1", f"{network}.2/24", bridge="inner")
        router.add_interface("eth1", f"{network}.1/24", bridge="inner")
        inner.inside(f"ip link set eth0 down && ip address flush dev eth0 && ip route add default via {network}.1")
        router.inside(
            "echo 1 > /proc/sys/net/ipv4/ip_forward && nft -f - <<'END'\ntable ip translated {\nchain out {\n"
            "type nat hook postrouting priority 100;\noifname eth0 masquerade\n}\n}\nEND"
        )
        own_name_at(f"{network}.2", 1)(launch)
        _first_two(launch)

    return inject


def network_of_its_machine(launch: Launch) -> None:
    """Host 1 is in the network of the others, as a container is with the network of its machine."""
    inner = launch.cluster[1]
    inner.inside(
        "ip link set eth1 down && ip address flush dev eth1 && ip link set eth0 up && "
        f"ip address add {inner.address}/24 dev eth0"
    )
    own_name_at(inner.address, 1)(launch)


def narrow_mask(launch: Launch) -> None:
    """Host 1 has a netmask of 25 bits in a network of 24, and a default gateway, host 2, which takes no part in the job
    and forwards nothing."""
    _, inner, gateway = launch.cluster
    inner.inside(
        "ip address flush dev eth0 && ip address add 10.77.0.200/25 dev eth0 && ip route add default via 10.77.0.201"
    )
    gateway.inside("ip address add 10.77.0.201/24 dev eth0 && echo 0 > /proc/sys/net/ipv4/ip_forward")
    own_name_at("10.77.0.200", 1)(launch)
    _first_two(launch)


def wide_mask(launch: Launch) -> None:
    """Host 1 is in 10.77.5.0/24, by a netmask of 16 bits, behind host 2, a router that takes no part in it."""
    outer, inner, router = launch.cluster
    inner.add_interface("eth1", "10.77.5.11/16", bridge="far")
    router.add_interface("eth1", "10.77.5.1/24", bridge="far")
    inner.inside("ip link set eth0 down && ip address flush dev eth0 && ip route add default via 10.77.5.1")
    outer.inside(f"ip route add 10.77.5.0/24 via {router.address}")
    router.inside("echo 1 > /proc/sys/net/ipv4/ip_forward")
    own_name_at("10.77.5.11", 1)(launch)
    _first_two(launch)


def routed(network: str) -> Fault:
    """Host 1 is in this network (``10.5.0``), behind host 2, a router that takes no part in the job."""
    return _routed(network, "true")


def half_routed(launch: Launch) -> None:
    """Host 1 sends to host 0, its neighbour, by host 2, a router that takes no part in the job and drops what belongs
    to no connection that it saw begin and answered."""
    outer, inner, router = launch.cluster
    router.inside(
        "echo 1 > /proc/sys/net/ipv4/ip_forward && for i in all default eth0; do "
        "echo 0 > /proc/sys/net/ipv4/conf/$i/send_redirects; done && "
        "echo 0 > /proc/sys/net/netfilter/nf_conntrack_tcp_loose && nft -f - <<'END'\ntable inet filter {\n"
        "chain forward {\ntype filter hook forward priority 0;\nct state invalid drop\n}\n}\nEND"
    )
    inner.inside(f"ip route add {outer.address}/32 via {router.address}")
    _first_two(launch)


def routed_one_way(network: str) -> Fault:
    """Host 1 is in this network (``10.5.0``), behind host 2, a router that takes no part in the job, and that lets
    connections out of it, and none in."""
    return _routed(
        network,
        "nft -f - <<'END'\ntable inet filter {\nchain forward {\n"
        "type filter hook forward priority 0;\niifname eth0 ct state new drop\n}\n}\nEND",
    )


def routed_narrowly(network: str, mtu: int) -> Fault:
    """The same with a router whose link to host 1 takes packets of ``mtu`` bytes at most, and that does not say so."""
    return _routed(network, f"ip link set eth1 mtu {mtu} && iptables -A OUTPUT -p icmp -j DROP")


def _routed(network: str, script: str) -> Fault:
    """Host 1 is in this network, behind host 2, which runs the script."""

    def inject(launch: Launch) -> None:
        outer, inner, router = launch.cluster
        inner.add_interface("eth1", f"{network}.2/24", bridge="inner")
        router.add_interface("eth1", f"{network}.1/24", bridge="inner")
        inner.inside(f"ip link set eth0 down && ip address flush dev eth0 && ip route add default via {network}.1")
        outer.inside(f"ip route add {network}.0/24 via {router.address}")
        router.inside(f"echo 1 > /proc/sys/net/ipv4/ip_forward && {script}")
        own_name_at(f"{network}.2", 1)(launch)
        _first_two(launch)

    return inject


def router_opened(launch: Launch) -> None:
    """Host 2, a router, lets everything through."""
    launch.cluster[2].inside("nft delete table inet filter")


def _first_two(launch: Launch) -> None:
    """The job is started on the first two hosts alone."""
    launch.starts = launch.starts[:2]
    for start in launch.starts:
        start.flags["--nnodes"] = "2"


def published(launch: Launch) -> None:
    """Host 0 is a container of host 2, which takes no part in the job and forwards its own MASTER_PORT to it: for what
    comes from outside, not for the container itself."""
    inner, _, router = launch.cluster
    router.add_interface("docker0", "172.17.0.1/16", bridge="inner")
    inner.add_interface("eth1", "172.17.0.2/16", bridge="inner")
    inner.inside("ip link set eth0 down && ip address flush dev eth0 && ip route add default via 172.17.0.1")
    router.inside(
        "echo 1 > /proc/sys/net/ipv4/ip_forward && nft -f - <<'END'\ntable ip translated {\nchain in {\n"
        f"type nat hook prerouting priority -100;\niifname eth0 tcp dport {PORT} dnat to 172.17.0.2\n}}\nchain out {{\n"
        "type nat hook postrouting priority 100;\noifname eth0 masquerade\n}\n}\nEND"
    )
    own_name_at("172.17.0.2", 0)(launch)
    _first_two(launch)
    for start in launch.starts:
        start.flags["--master-addr"] = router.address
        start.env["DISTDOCTOR_TOKEN"] = "0123456789abcdef"


def flaps(on: int, times: int = 60, up: float = 2, down: float = 1, joined: bool = False) -> Fault:
    """The card of host ``on`` is down for ``down`` seconds, ``times`` times, after ``up`` seconds each; with ``joined``
    from the moment on in which the host has joined the store."""

    def inject(launch: Launch) -> None:
        arguments = f"{times} {up:g} {down:g}{' joined' if joined else ''}"
        command = f"{quote(sys.executable)} -S -E -c {quote(FLAPS)} {arguments}"
        begun = "for _ in $(seq 200); do [ -s /run/flaps.pid ] && break; sleep 0.05; done"
        launch.cluster[on].inside(f"setsid {command} >/dev/null 2>&1 </dev/null & {begun}")

    return inject


def flaps_no_more(on: int) -> Fault:
    """That has ended, and the card is up."""
    return inside(on, "kill $(cat /run/flaps.pid) || true; sleep 0.1; ip link set eth0 up")
