"""The table, stage mesh: links between the nodes."""

# ruff: noqa: E501 - a case is a line, however long

from __future__ import annotations

from tests.lab.cases.common import NO_INTERFACE
from tests.lab.faults import inside, together
from tests.lab.faults.host import leftover
from tests.lab.faults.launch import shell, variable
from tests.lab.faults.links import (
    cut_in_switch,
    dropped_in_switch,
    kept_apart,
    loses,
    ports_joined,
    routed_narrowly,
    routed_one_way,
    router_opened,
    shapers_removed,
    slow,
    switch_repaired,
)
from tests.lab.faults.packet_filter import (
    FROM_OTHERS,
    cut,
    deaf_to,
    mute_to,
    nft,
    only_master_port,
    only_master_port_iptables,
    only_ports,
)
from tests.lab.harness.case import Case, Root, patient

CASES = [
    Case("only MASTER_PORT is open on the lower address", only_master_port(0), "mesh/peer-ports-blocked", ["host0"]),
    Case("only MASTER_PORT is open on the higher address", only_master_port(1), "mesh/peer-ports-blocked", ["host1"], "warn"),
    Case("only MASTER_PORT is open on both", together(only_master_port(0), only_master_port(1)), "mesh/peer-ports-blocked", ["host0", "host1"]),
    Case("only MASTER_PORT is open by iptables, lower address", only_master_port_iptables(0), "mesh/peer-ports-blocked", ["host0"]),
    Case("only MASTER_PORT is open by iptables, higher address", only_master_port_iptables(1), "mesh/peer-ports-blocked", ["host1"], "warn"),
    Case("only MASTER_PORT is open, torchrun", only_master_port(0), "mesh/peer-ports-blocked", ["host0"], style="torchrun"),
    Case("ephemeral ports are reset", nft(0, *FROM_OTHERS, "tcp dport 32768-60999 reject with tcp reset"), "mesh/peer-ports-blocked", ["host0"]),
    Case("one pair of 3 is cut in one direction", nft(1, *FROM_OTHERS, "ip saddr {host2} drop"), "mesh/one-way", ["host1"], hosts=3),
    *patient(
        Case("a range of ports is open on the lower address", only_ports(0, "20000-30000"), "mesh/peer-ports-blocked", ["host0"], options=(1, 2)),
        Case("the switch lets a range of ports through", dropped_in_switch("tcp flags & (syn | ack) == syn tcp dport != 20000-30000"), "mesh/peer-ports-blocked", ["host0", "host1"], blame="one-of", by_hand=switch_repaired),
        Case("node 1 drops what it sends to itself", nft(1, "ip saddr {host1} drop"), "mesh/peer-ports-blocked", ["host1"]),
        Case("some of the ports that the kernel picks are open", only_ports(0, "29500, 32768-60900"), "mesh/ports-partly-open", ["host0"], "warn", options=(1, 2), torch="never (trains)"),
        Case("one link of 3 is one-way", deaf_to(1, 2), "mesh/one-way", ["host1"], hosts=3),
        Case("one link of 3 is one-way, the other way", deaf_to(2, 1), "mesh/one-way", ["host2"], "warn", hosts=3),
        Case("node 2 of 3 is isolated", cut(2, 0, 1), "mesh/node-isolated", ["host2"], hosts=3),
        Case("node 3 of 4 is isolated", cut(3, 0, 1, 2), "mesh/node-isolated", ["host3"], hosts=4, nproc=1),
        Case("node 2 of 3 accepts nothing", deaf_to(2, 0, 1), "mesh/peer-ports-blocked", ["host2"], "warn", hosts=3),
        Case("node 0 of 3 accepts nothing", deaf_to(0, 1, 2), "mesh/peer-ports-blocked", ["host0"], hosts=3),
        Case("node 2 of 3 reaches nobody", mute_to(2, 0, 1), "mesh/one-way", ["host2"], hosts=3),
        Case("one pair of 4 is cut", cut(1, 2), "mesh/peer-ports-blocked", ["host1"], hosts=4, nproc=1),
        Case("one pair of 5 is cut", cut(3, 2), "mesh/peer-ports-blocked", ["host3"], hosts=5, nproc=1),
        Case("the switch keeps the ports of two of 3 apart", kept_apart(1, 2), "mesh/peer-ports-blocked", ["host1", "host2"], blame="one-of", hosts=3, by_hand=ports_joined),
        Case("one pair of 3 is cut in the switch", cut_in_switch((1,), (2,)), "mesh/peer-ports-blocked", ["host1", "host2"], blame="one-of", hosts=3, by_hand=switch_repaired),
        Case("a router lets connections out of the network of node 1, and none in", routed_one_way("10.5.0"), "mesh/peer-ports-blocked", ["host0", "host1"], blame="one-of", hosts=3, by_hand=router_opened),
        Case("2 and 2 nodes", together(deaf_to(0, 2, 3), deaf_to(1, 2, 3), deaf_to(2, 0, 1), deaf_to(3, 0, 1)), "mesh/partition", ["host0", "host1", "host2", "host3"], hosts=4, nproc=1),
        Case("2 and 2 nodes, by the switch", cut_in_switch((0, 1), (2, 3)), "mesh/partition", ["host0", "host1", "host2", "host3"], blame="one-of", hosts=4, nproc=1, by_hand=switch_repaired),
        Case("3 and 2 nodes, by the switch", cut_in_switch((0, 1, 2), (3, 4)), "mesh/partition", ["host3", "host4"], hosts=5, nproc=1, by_hand=switch_repaired),
        Case("large packets vanish", nft(1, 'iifname "eth0" meta length > 1294 drop'), "mesh/mtu-blackhole", ["host1"], torch="never"),
        Case("large packets vanish, its own too", nft(1, "meta length > 1294 drop"), "mesh/mtu-blackhole", ["host1"], torch="never"),
        Case("large packets vanish, one of 3", nft(2, 'iifname "eth0" meta length > 1294 drop'), "mesh/mtu-blackhole", ["host2"], hosts=3, torch="never"),
        Case("packets of more than 1,000 bytes vanish at node 0", nft(0, 'iifname "lo" accept', "meta length > 1000 drop"), "mesh/mtu-blackhole", ["host0"], torch="never"),
        Case("node 0 sends no packets of more than 1,000 bytes", nft(0, 'oifname "lo" accept', "meta length > 1000 drop", hook="output"), "mesh/mtu-blackhole", ["host0"], torch="never"),
        Case("a router takes smaller packets than the nodes, and does not say so", routed_narrowly("10.5.0", 1300), "mesh/mtu-blackhole", ["host0", "host1"], blame="one-of", hosts=3, torch="not measured"),
        Case("connections to one of 3 are reset after 20 KB", nft(1, 'iifname "eth0" ct bytes > 20000 reject with tcp reset'), "mesh/connection-loss", ["host1"], hosts=3, within=25, torch="reset, one side"),
        Case("connections are reset after 300 KB", nft(1, 'iifname "eth0" ct bytes > 300000 reject with tcp reset'), "mesh/connection-loss", ["host1"], within=15, torch="reset, one side"),
        Case("connections carry nothing more after 20 KB", nft(0, 'iifname "eth0" ct bytes > 20000 drop'), "mesh/connection-loss", ["host0"], within=25, torch="never"),
        Case("connections carry nothing more after 300 KB", nft(0, 'iifname "eth0" ct bytes > 300000 drop'), "mesh/connection-loss", ["host0"], within=25, torch="not measured"),
        Case("node 1 rewrites node 0's address on high ports to another", inside(1, "nft add table ip nat; nft add chain ip nat output '{{ type nat hook output priority -100; }}'; nft add rule ip nat output ip daddr 10.77.0.10 tcp dport 30000-65535 dnat to 10.77.0.99"), "mesh/peer-ports-blocked", ["host1"], within=20, torch="never"),
        Case("node 1 accepts 2 MB of node 0, then nothing", nft(1, "ip saddr 10.77.0.10 quota over 2 mbytes drop"), "mesh/connection-loss", ["host1"], within=30, torch="never"),
        Case("one of 3 sends slowly", slow(2), "mesh/slow-link", ["host2"], "warn", hosts=3, by_hand=shapers_removed, needs=["tc"], torch="none, 60 times slower"),
        Case("one of 4 sends slowly", slow(1), "mesh/slow-link", ["host1"], "warn", hosts=4, nproc=1, by_hand=shapers_removed, needs=["tc"], torch="none, 60 times slower"),
        Case("one of 3 loses packets", loses(1, 10), "mesh/packet-loss", ["host1"], "warn", hosts=3, torch="none, slower"),
        Case("two: one pair of 4 is cut, another node has no such interface", together(cut(1, 2), variable("GLOO_SOCKET_IFNAME", "ib0", 3)), "mesh/peer-ports-blocked", ["host1"], hosts=4, nproc=1, also=[Root(NO_INTERFACE, ["host3"])]),
        Case("two: one pair of 4 is cut, a rank of an earlier run", together(cut(1, 2), leftover(3)), "mesh/peer-ports-blocked", ["host1"], hosts=4, nproc=1, also=[Root("host/leftover-processes", ["host3"], "warn")]),
        Case("two: node 2 of 3 is isolated, few open files", together(cut(2, 0, 1), shell("ulimit -S -n 64", 1)), "mesh/node-isolated", ["host2"], hosts=3, also=[Root("host/open-files-limit", ["host1"], "warn")]),
    ),
]  # fmt: skip
