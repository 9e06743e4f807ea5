"""A fix that only root can carry out says so where the job's user is not root."""

from __future__ import annotations

import pytest

from distdoctor.judge.as_root import with_root
from distdoctor.model.findings import Fix
from tests.facts_builder import cluster, healthy, judged, loopback_name, with_identity

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
]
ANYBODYS = [
    "nvidia-smi -L",
    "nvidia-smi nvlink -s",
    "nvidia-smi -q",
    "sed -i '/^NCCL_IB_HCA=/d' /home/me/.nccl.conf",
    "sysctl net.netfilter.nf_conntrack_max",
    "ip route get 10.0.0.1",
    "ulimit -n 65536",
    "kill 4711",
    "rm /tmp/x",
]


def said(user: str, command: str, text: str = "Mend it.") -> str:
    nodes = [with_identity(one, user=user) for one in healthy(2)]
    return with_root(Fix(text, ("host1",), commands=(command,)), cluster(*nodes)).text


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
