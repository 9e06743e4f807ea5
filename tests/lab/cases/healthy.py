"""Healthy clusters, in many odd shapes. One line per shape; none may have a finding of severity fail."""

# ruff: noqa: E501 - a shape is a line, however long

from __future__ import annotations

from tests.lab.faults import everywhere, inside, together
from tests.lab.faults.host import clock, tunnel
from tests.lab.faults.launch import INIT_FILE, as_user, c10d, flag, late, shared_file, shell, variable
from tests.lab.faults.links import docker0, jumbo_frames, plugged, second_network
from tests.lab.faults.names import huge_hosts_file, name_at, no_name_server, own_name_at
from tests.lab.faults.packet_filter import iptables, nft, service
from tests.lab.faults.processes import busy
from tests.lab.harness.launch import PORT, Fault, Launch, Start
from tests.lab.harness.shape import Shape

ODD_PYTHON = {
    "PYTHONOPTIMIZE": "2",
    "PYTHONWARNINGS": "error",
    "LC_ALL": "C",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
}


def several_on_one_host(nodes: int) -> Fault:
    """That many nodes of one job on every host, node ranks in the order of the hosts."""

    def setup(launch: Launch) -> None:
        hosts, total = list(launch.cluster), nodes * len(launch.cluster)
        launch.starts = []
        for rank in range(total):
            flags = {"--nnodes": str(total), "--nproc-per-node": str(launch.nproc), "--node-rank": str(rank)}
            flags |= {"--master-addr": launch.master or hosts[0].name}
            launch.starts.append(Start(hosts[rank // nodes], rank, {**flags}))

    return setup


def every_node(name: str) -> Fault:
    """``name`` is every host's address at once, as that of a headless Kubernetes service is."""

    def setup(launch: Launch) -> None:
        for host in launch.cluster:
            host.hosts_file += "".join(f"{other.address} {name}\n" for other in launch.cluster)

    return setup


def all_hosts(name: str, value: str) -> Fault:
    """The variable has this value on every host."""
    return lambda launch: variable(name, value, *range(len(launch.cluster)))(launch)


def open_firewall(on: int, peer: str) -> Fault:
    """A packet filter with a policy of drop that lets the peer in, as a careful site has it."""
    return nft(
        on, 'iifname "lo" accept', "ct state established,related accept", f"ip saddr {peer} accept", policy="drop"
    )


SHAPES = [
    Shape("1 node", 1),
    Shape("2 nodes"),
    Shape("3 nodes", 3),
    Shape("4 nodes", 4),
    Shape("5 nodes of 1 rank", 5, nproc=1),
    Shape("2 nodes, ranks unset", style="unset"),
    Shape("3 nodes, ranks unset", 3, style="unset"),
    Shape("2 nodes by PET_*", style="pet"),
    Shape("RANK by hand", style="rank"),
    Shape("RANK by hand, 3 hosts", 3, style="rank"),
    Shape("torchrun static", style="torchrun"),
    Shape("a token everywhere", 3, setup=all_hosts("DISTDOCTOR_TOKEN", "0123456789abcdef")),
    Shape("a token everywhere, torchrun", style="torchrun", setup=all_hosts("DISTDOCTOR_TOKEN", "0123456789abcdef")),
    Shape("torchrun c10d", style="c10d"),
    Shape("torch.distributed.launch", style="launch"),
    Shape("different numbers of ranks", setup=flag("--nproc-per-node", "1", 1)),
    Shape("odd interface names", 3, interface=("enp0s31f6", "ib0.8002", "wlx00c0ca")),
    Shape("docker0 beside eth0", setup=docker0(0, 1)),
    Shape("docker0 on one", setup=docker0(1)),
    Shape("a second network that leads nowhere", setup=second_network("10.99.0.10/24", "10.98.0.11/24")),
    Shape("a card without ARP, and ARP as kube-proxy has it", setup=together(second_network("10.99.0.10/24", "10.99.0.11/24", joined=True), inside(1, "ip link set dev eth1 arp off"), everywhere("echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore; echo 2 > /proc/sys/net/ipv4/conf/all/arp_announce"))),
    Shape("two next hops that both answer", setup=together(second_network("10.99.0.10/24", "10.99.0.11/24", joined=True), inside(1, "echo 1 > /proc/sys/net/ipv4/fib_multipath_hash_policy; ip route add {host0}/32 nexthop via {host0} dev eth0 nexthop via 10.99.0.10 dev eth1"))),
    Shape("gloo on a second network", setup=together(second_network("10.99.0.10/24", "10.99.0.11/24", joined=True), all_hosts("GLOO_SOCKET_IFNAME", "eth1"))),
    Shape("gloo on two networks", setup=together(second_network("10.99.0.10/24", "10.99.0.11/24", joined=True), all_hosts("GLOO_SOCKET_IFNAME", "eth0,eth1"))),
    Shape("settings that need not be alike", 3, setup=together(variable("TORCH_DISTRIBUTED_DEBUG", "INFO", 1), variable("TORCH_GLOO_LAZY_INIT", "0", 2), variable("GLOO_DEVICE_TRANSPORT", "TCP", 0), variable("GLOO_DISABLE_CONNECTION_RETRIES", "1", 1), variable("GLOO_SOCKET_IFNAME", "eth0,", 2))),
    Shape("variables that are no UTF-8", setup=together(all_hosts("NCCL_SITE", "\udcff"), all_hosts("LOGNAME", "\udcfe"))),
    Shape("GLOO_SOCKET_IFNAME of one letter, which torch ignores", setup=all_hosts("GLOO_SOCKET_IFNAME", "x")),
    Shape("IPv6 only", subnets=["fd77::/64"]),
    Shape("IPv6 only, master by number", subnets=["fd77::/64"], master="fd77::a"),
    Shape("IPv4 and IPv6", subnets=["10.77.0.0/24", "fd77::/64"]),
    Shape("192.168", subnets=["192.168.7.0/24"]),
    Shape("172.16/12", subnets=["172.20.0.0/16"]),
    Shape("node 1 is 12 s late", setup=late(12, 1)),
    Shape("master started last", 3, setup=late(5, 0)),
    Shape("master started last, ranks unset", setup=late(4, 0), style="unset"),
    Shape("two nodes on one host", 1, setup=several_on_one_host(2), master="127.0.0.1"),
    Shape("two nodes on one host, by name", 1, setup=several_on_one_host(2)),
    Shape("two nodes on each of two hosts", 2, setup=several_on_one_host(2), nproc=1),
    Shape("host names with dots", ["gpu01.site.example", "gpu02.site.example"]),
    Shape("127.0.1.1, and GLOO_SOCKET_IFNAME set rightly", setup=together(own_name_at("127.0.1.1", 0, 1), all_hosts("GLOO_SOCKET_IFNAME", "eth0"))),
    Shape("localhost is ::1 alone, without IPv6", 1, setup=together(name_at(0, "localhost", "::1"), inside(0, "for one in all lo; do echo 1 > /proc/sys/net/ipv6/conf/$one/disable_ipv6; done")), master="localhost"),
    Shape("127.0.1.1 on one node alone", 1, setup=own_name_at("127.0.1.1", 0)),
    Shape("no entries for the peers", 3, master="10.77.0.10", peers_in_hosts_file=False),
    Shape("firewalls that let the peers in", setup=together(open_firewall(0, "{host1}"), open_firewall(1, "{host0}"))),
    Shape("iptables that block another port", setup=iptables(0, "-A INPUT -p tcp --dport 80 -j DROP")),
    Shape("not root", setup=as_user(0, 1)),
    Shape("MASTER_PORT of another job on one node", setup=variable("MASTER_PORT", "1234", 1)),
    Shape("master and port by variables", style="node", setup=together(flag("--master-addr", None, 0, 1), all_hosts("MASTER_ADDR", "host0"), all_hosts("MASTER_PORT", str(PORT + 7)))),
    # What is odd in the field, and right.
    Shape("a name that means every node", 3, setup=every_node("job"), master="job"),
    Shape("a name that means every node, RANK by hand", 3, setup=every_node("job"), master="job", style="rank"),
    Shape("a Service's address, and a token everywhere", setup=together(service("job", "10.96.0.50"), all_hosts("DISTDOCTOR_TOKEN", "0123456789abcdef")), master="job"),
    Shape("a Service's address", setup=service("job", "10.96.0.50"), master="job"),
    Shape("a Service's address, 3 nodes", 3, setup=service("job", "10.96.0.50"), master="job"),
    Shape("an ssh tunnel to MASTER_PORT", setup=together(tunnel(1, 0), flag("--master-addr", "127.0.0.1", 1))),
    Shape("an ssh tunnel to MASTER_PORT, torchrun", style="torchrun", setup=together(tunnel(1, 0), flag("--master-addr", "127.0.0.1", 1))),
    Shape("several interfaces", 3, setup=together(second_network("10.99.0.10/24", "10.99.0.11/24", "10.99.0.12/24", joined=True), second_network("192.168.9.10/24", "192.168.8.10/24", "", interface="eth2"), docker0(0, 1, 2))),
    Shape("two cards in one network, and a second address", setup=together(plugged(1, "eth1", "10.77.0.111/24"), inside(0, "ip address add 10.77.0.110/24 dev eth0"))),
    Shape("bonds and VLANs", 3, interface=("bond0", "bond0.100", "vlan100")),
    Shape("172.17 addresses that do route", 3, subnets=["172.17.0.0/16"]),
    Shape("a huge /etc/hosts", setup=huge_hosts_file),
    Shape("no name server at all", setup=no_name_server),
    Shape("no name server at all, peers unknown", 3, setup=no_name_server, master="10.77.0.10", peers_in_hosts_file=False),
    Shape("jumbo frames everywhere", setup=jumbo_frames),
    Shape("a clock 2 s ahead", 3, setup=clock(2, 1)),
    Shape("a busy machine", setup=busy, flags=("--wait", "60")),
    Shape("a busy machine, 4 nodes", 4, setup=busy, nproc=1, flags=("--wait", "60")),
    Shape("8 nodes", 8, nproc=1, flags=("--wait", "60")),
    Shape("--init-method tcp://", setup=together(flag("--init-method", f"tcp://10.77.0.10:{PORT}", 0, 1), flag("--master-addr", None, 0, 1))),
    Shape("--init-method file://, shared", setup=flag("--init-method", INIT_FILE, 0, 1)),
    Shape("--init-method file://, empty", setup=together(flag("--init-method", INIT_FILE, 0, 1), shared_file(""))),
    Shape("one rendezvous id, c10d", 3, setup=c10d("job7", "job7", "job7")),
    Shape("TORCH_DISTRIBUTED_DEBUG=DETAIL", setup=all_hosts("TORCH_DISTRIBUTED_DEBUG", "DETAIL")),
    Shape("TORCH_DISTRIBUTED_DEBUG=DETAIL, 4 ranks of one node", 1, nproc=4, setup=all_hosts("TORCH_DISTRIBUTED_DEBUG", "DETAIL")),
    Shape("Python without docstrings, with warnings as errors, in ASCII", setup=together(*(all_hosts(name, value) for name, value in ODD_PYTHON.items()))),
    Shape("no standard input, and no signal of children that end", setup=shell("exec <&-; trap '' CHLD HUP PIPE", 0, 1)),
    Shape("a limit of 256 open files", setup=shell("ulimit -S -n 256", 0, 1)),
    Shape("a limit of new connections that no job reaches", setup=nft(0, "tcp flags syn limit rate over 1000/second burst 1000 packets drop")),
    Shape("FIN and RST are dropped", setup=nft(0, 'iifname "lo" accept', "tcp flags & (fin | rst) != 0 drop")),
    Shape("/proc is not mounted on node 1", setup=inside(1, "mount -t tmpfs lab /proc")),
]  # fmt: skip
