"""Settings of the kernel (sysctl) that a job's connections, memory and start depend on."""

from __future__ import annotations

_NAMES = """
net.core.somaxconn net.core.rmem_max net.core.wmem_max net.core.netdev_max_backlog
net.ipv4.tcp_rmem net.ipv4.tcp_wmem net.ipv4.tcp_congestion_control net.ipv4.tcp_mtu_probing net.ipv4.tcp_sack
net.ipv4.tcp_window_scaling net.ipv4.tcp_timestamps net.ipv4.tcp_ecn net.ipv4.tcp_syn_retries net.ipv4.tcp_retries2
net.ipv4.tcp_keepalive_time net.ipv4.tcp_keepalive_intvl net.ipv4.tcp_keepalive_probes net.ipv4.tcp_tw_reuse
net.ipv4.ip_forward net.ipv4.conf.all.rp_filter net.ipv4.conf.all.arp_ignore net.ipv4.conf.all.arp_announce
net.ipv4.neigh.default.gc_thresh3 net.ipv6.conf.all.disable_ipv6 net.ipv6.bindv6only net.netfilter.nf_conntrack_max
net.netfilter.nf_conntrack_tcp_timeout_established net.ipv4.ip_default_ttl
kernel.numa_balancing kernel.yama.ptrace_scope vm.overcommit_memory vm.overcommit_ratio vm.max_map_count
vm.nr_hugepages vm.zone_reclaim_mode fs.nr_open
"""
NAMES = tuple(_NAMES.split())
"""Beside those of which each is a fact of its own (``Limits``)."""


def probe(root: str = "/proc/sys") -> dict[str, str]:
    """Their values, by name; without those that this kernel or container lacks, or keeps to itself."""
    found = {}
    for name in NAMES:
        try:
            with open(f"{root}/{name.replace('.', '/')}") as file:
                found[name] = " ".join(file.read(200).split())
        except OSError:
            continue
    return found
