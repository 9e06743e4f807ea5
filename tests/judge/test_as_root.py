"""A fix that only root can carry out says so where the job's user is not root; one that nobody can, describes it."""

from __future__ import annotations

import pytest

from distdoctor.check_api.fixes import READ_HOSTS_FILE
from distdoctor.judge.fixes import feasible
from distdoctor.model.facts import Account, NodeFacts
from distdoctor.model.facts.host import HOSTS_FILE, KERNEL_SETTINGS, NAME_SOURCES, NET_ADMIN, SYS_ADMIN
from distdoctor.model.findings import Fix
from tests.facts_builder import cluster, healthy, judged, loopback_name, with_host, with_identity

ROOTS_OWN = [
    "ip -6 route replace fd00::/64 dev eth0",
    "ip address add 10.0.0.1/24 dev eth0 && ip address del 10.0.0.1/32 dev eth0",
    "sysctl -w net/ipv4/conf/eth0/rp_filter=2",
    "nft insert rule inet filter input ip saddr '{ 10.0.0.1 }' meta l4proto tcp accept",
    "iptables-legacy -I INPUT -s 10.0.0.1 -p tcp -j ACCEPT",
    "echo '10.0.0.1 host0' >> /etc/hosts",
    'new=$(sed -e \'4d\' /etc/hosts) && printf "%s\\n" "$new" > /etc/hosts',
    "mount -o remount,size=8g /dev/shm",
    "chmod 1777 /dev/shm",
    "nvidia-smi -i 0,1,2 -pl 700",
    "nvidia-smi -i 3 -c DEFAULT",
    "nvidia-smi -mig 0",
    "nvidia-smi --gpu-reset",
    "systemctl enable --now nvidia-fabricmanager",
    "modprobe nvidia-peermem",
    "sed -i '/^NCCL_IB_HCA=/d' /etc/nccl.conf",
    "echo 1 > /proc/sys/net/ipv4/tcp_sack",
]
ANYBODYS = [
    "sysctl net.netfilter.nf_conntrack_max",
    "ip route get 10.0.0.1",
    "ulimit -n 65536",
    "kill 4711",
    "rm /tmp/x",
    "nvidia-smi -q",
    "nvidia-smi -L",
    "nvidia-smi nvlink -s",
    "sed -i '/^NCCL_IB_HCA=/d' /home/me/.nccl.conf",
]


def said(user: str, command: str, text: str = "Mend it.") -> str:
    nodes = [with_identity(one, user=user) for one in healthy(2)]
    return feasible(Fix(text, ("host1",), commands=(command,)), cluster(*nodes)).text


@pytest.mark.parametrize("command", ROOTS_OWN)
def test_another_user_is_told_that_it_needs_root(command: str) -> None:
    assert said("ann", command) == "Mend it, as root."
    assert said("root", command) == said("", command) == "Mend it."
    assert said("ann", command, "Mend it, as root.") == "Mend it, as root."


@pytest.mark.parametrize("command", ANYBODYS)
def test_what_anybody_may_do_is_told_as_it_is(command: str) -> None:
    assert said("ann", command) == "Mend it."


def test_a_report_says_it_of_a_line_of_etc_hosts_and_not_of_a_variable() -> None:
    a, b = (with_identity(loopback_name(one), user="ann") for one in healthy(2))
    fixes = {fix.option: fix.text for one in judged(a, b).roots for fix in one.fixes}
    assert fixes[2].endswith("in /etc/hosts, as root.") and "root" not in fixes[1]


def of_container(*withheld: str, missing: tuple[str, ...] = (), nodes: tuple[int, ...] = (1,)) -> list[NodeFacts]:
    account = Account(0, withheld=withheld, missing_programs=missing)
    return [with_host(one, account=account) if n in nodes else one for n, one in enumerate(healthy(2))]


def feasible_fix(command: str, nodes: list[NodeFacts], on: tuple[str, ...] = ("host1",)) -> Fix:
    return feasible(Fix("Mend it.", on, commands=(command,)), cluster(*nodes))


@pytest.mark.parametrize(
    ("command", "withheld", "says"),
    [
        ("ip route del 10.0.0.1/32", NET_ADMIN, "--cap-add=NET_ADMIN"),
        ("nft insert rule inet filter input accept", NET_ADMIN, "--cap-add=NET_ADMIN"),
        ("sysctl -w net.ipv4.tcp_sack=1", KERNEL_SETTINGS, "docker run --sysctl"),
        ("echo '10.0.0.1 host0' >> /etc/hosts", HOSTS_FILE, "docker run --add-host"),
        ("new=$(sed -e 4d /etc/hosts) && printf '%s' \"$new\" > /etc/hosts", HOSTS_FILE, "hostAliases"),
        (READ_HOSTS_FILE, NAME_SOURCES, "image"),
        ("mount -o remount,size=8g /dev/shm", SYS_ADMIN, "where the container is started"),
        ("mkdir -p /dev/shm && mount -t tmpfs tmpfs /dev/shm", SYS_ADMIN, "where the container is started"),
    ],
)
def test_what_nobody_may_run_there_is_described(command: str, withheld: str, says: str) -> None:
    fix = feasible_fix(command, of_container(withheld))
    assert fix.commands == () and says in fix.text and f"`{command}`" in fix.text and "But host1 " in fix.text
    others = tuple(one for one in (NET_ADMIN, SYS_ADMIN, HOSTS_FILE, NAME_SOURCES, KERNEL_SETTINGS) if one != withheld)
    assert (
        feasible_fix(command, of_container(*others))
        == feasible_fix(command, of_container())
        == Fix("Mend it.", ("host1",), commands=(command,))
    )


def test_where_one_of_the_nodes_may_the_command_stays_and_the_other_is_named() -> None:
    fix = feasible_fix("ip link set lo up", of_container(NET_ADMIN), ("host0", "host1"))
    assert fix.commands == ("ip link set lo up",) and "But host1 may not" in fix.text and "host0" not in fix.text


def test_a_program_that_is_not_installed() -> None:
    fix = feasible_fix(
        "sysctl -w net.ipv4.ip_local_port_range='1024 65000' net/ipv4/conf/bond0.100/rp_filter=2",
        of_container(missing=("sysctl", "ip")),
    )
    assert fix.commands == (
        "echo '1024 65000' > /proc/sys/net/ipv4/ip_local_port_range && "
        "echo 2 > /proc/sys/net/ipv4/conf/bond0.100/rp_filter",
    )
    assert fix.text == "Mend it."
    assert "iproute2" in feasible_fix("ip link set lo up", of_container(missing=("ip",))).text
    assert feasible_fix("sysctl net.ipv4.tcp_sack", of_container(missing=("ip",))).text == "Mend it."
