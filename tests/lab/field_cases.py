"""The second half of the table: launch settings, limits, names, links, stopped ranks, and two faults at once."""

# ruff: noqa: E501 - a case is a line, however long

from __future__ import annotations

import signal
from dataclasses import replace

from tests.lab.cases import CASES, LOOPBACK, NCCL_HOST, NOBODY, PRIVATE_LAN, WAIT, Case, Root
from tests.lab.faults import (
    HTTP_SERVER,
    SILENT_LISTENER,
    as_user,
    docker0,
    flag,
    master_port,
    name_at,
    name_removed,
    nft,
    not_started,
    nothing,
    own_name_at,
    port_held,
    second_network,
    start_all,
    together,
    usual_installation,
    variable,
)
from tests.lab.field_faults import (
    INIT_FILE,
    c10d,
    c10d_on,
    card_changed,
    clock,
    cut,
    cut_in_switch,
    damages,
    deaf_to,
    forwarded_into_silence,
    inside,
    killed_doctor,
    leftover,
    load_ended,
    loses,
    mute_to,
    named_late,
    one_node,
    other_subnet,
    port_range,
    shapers_removed,
    shared_file,
    shared_memory,
    shell,
    signalled_rank,
    silent_name_server,
    slow,
    starved,
    switch_repaired,
)
from tests.lab.trust_cases import TRUST
from tests.lab.way_cases import WAYS

BOTH, ALL3 = ("host0", "host1"), ("host0", "host1", "host2")
SMALL_SHM = Root("host/shared-memory-small", ["host1"], "warn")
BACKENDS_DIFFER = "environment/rendezvous-backend-mismatch"
NO_INTERFACE = "gloo/interface-not-found"
STRICT = (
    "ip route add {host1}/32 dev eth1; for i in all eth0 eth1; do echo 1 > /proc/sys/net/ipv4/conf/$i/rp_filter; done"
)
"""Answers to host 1 leave by eth1; what it sends to eth0 is dropped for that."""
TWO_NETWORKS = second_network("10.99.0.10/24", "10.99.0.11/24", joined=True)

ENVIRONMENT = [
    Case("c10d on node 1 alone", c10d_on(1), BACKENDS_DIFFER, BOTH, blame="one-of", options=(1, 2)),
    Case("c10d on node 0 alone", c10d_on(0), BACKENDS_DIFFER, BOTH, blame="one-of", options=(1, 2)),
    Case("c10d on node 1 of 3 alone", c10d_on(1), BACKENDS_DIFFER, ["host1"], hosts=3),
    Case("c10d on node 1 alone, at its own port", c10d_on(1, 29400), BACKENDS_DIFFER, BOTH, blame="one-of", curable=True, live=False, options=(1, 2)),
    Case("PET_RDZV_BACKEND on node 1 alone", variable("PET_RDZV_BACKEND", "c10d", 1), BACKENDS_DIFFER, BOTH, blame="one-of"),
    Case("PET_RDZV_BACKEND on both, and --master-addr", variable("PET_RDZV_BACKEND", "c10d", 0, 1), "environment/invalid-variable", BOTH),
    Case("the rendezvous ids differ", c10d("a", "b"), "environment/rendezvous-id-mismatch", BOTH, blame="one-of", torch="600 s, no cause"),
    Case("one of 3 rendezvous ids differs", c10d("a", "a", "b"), "environment/rendezvous-id-mismatch", ["host2"], hosts=3, torch="600 s, no cause"),
    Case("the id of node 1 of 3 differs", c10d("a", "b", "a"), "environment/rendezvous-id-mismatch", ["host1"], hosts=3, torch="600 s, no cause"),
    Case("--backend mpi on a build without", flag("--backend", "mpi", 0, 1), "environment/backend-not-built", BOTH, torch="at once"),
    Case("--backend nccl on a build without", flag("--backend", "nccl", 0, 1), "environment/backend-not-built", BOTH),
    Case("a setting of gloo on one of 3", variable("TORCH_GLOO_LAZY_INIT", "1", 2), "environment/setting-mismatch", ["host2"], hosts=3),
    Case("a setting of gloo on one of 2", variable("TORCH_GLOO_LAZY_INIT", "1", 1), "environment/setting-mismatch", BOTH, blame="one-of", options=(1, 2)),
    Case("DETAIL on one of 2", variable("TORCH_DISTRIBUTED_DEBUG", "DETAIL", 1), "environment/setting-mismatch", BOTH, blame="one-of", options=(1, 2)),
    Case("DETAIL on one of 3", variable("TORCH_DISTRIBUTED_DEBUG", "DETAIL", 0), "environment/setting-mismatch", ["host0"], hosts=3),
    Case("a barrier after init on one of 2", variable("TORCH_DIST_INIT_BARRIER", "1", 0), "environment/setting-mismatch", BOTH, blame="one-of", options=(1, 2)),
    Case("ranks as numbers in gloo on one of 3", variable("GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER", "1", 2), "environment/setting-mismatch", ["host2"], hosts=3, torch="at once, a crash"),
    Case("GLOO_SOCKET_IFNAME names two on one of 2", together(TWO_NETWORKS, variable("GLOO_SOCKET_IFNAME", "eth0,eth1", 1)), "environment/setting-mismatch", BOTH, blame="one-of"),
    Case("GLOO_SOCKET_IFNAME, the second is missing", variable("GLOO_SOCKET_IFNAME", "eth0,eth7", 1), NO_INTERFACE, ["host1"], verified=True, options=(1, 2)),
    Case("GLOO_SOCKET_IFNAME, the second is missing on one of 2", together(TWO_NETWORKS, variable("GLOO_SOCKET_IFNAME", "eth0,eth1", 0), variable("GLOO_SOCKET_IFNAME", "eth0,eth7", 1)), NO_INTERFACE, ["host1"], verified=True),
    Case("GLOO_SOCKET_IFNAME, the second leads nowhere", together(second_network("10.99.0.10/24", "10.98.0.11/24"), variable("GLOO_SOCKET_IFNAME", "eth0,eth1", 0, 1)), "gloo/interface-unreachable", BOTH, verified=True),
    Case("a name that torch gave up, with gloo", variable("NCCL_BLOCKING_WAIT", "1", 0, 1), "environment/deprecated-variable", BOTH, "info"),
    Case("a name that torch gave up, with nccl", variable("NCCL_BLOCKING_WAIT", "1", 0, 1), "environment/deprecated-variable", BOTH, "warn", flags=NCCL_HOST),
    Case("one of 3 has fewer ranks, with nccl", flag("--nproc-per-node", "1", 1), "environment/uneven-ranks", ["host1"], "warn", hosts=3, live=False, flags=NCCL_HOST, torch="hangs some versions of NCCL"),
    Case("GLOO_SOCKET_IFNAM", variable("GLOO_SOCKET_IFNAM", "eth0", 0, 1), "environment/misspelled-variable", BOTH, "warn"),
    Case("GLOO_SOCKET_IFNAM, and 127.0.1.1", together(variable("GLOO_SOCKET_IFNAM", "eth0", 0, 1), own_name_at("127.0.1.1", 0, 1)), LOOPBACK, BOTH, verified=True),
    Case("MASTER_ADR", together(variable("MASTER_ADDR", None, 1), variable("MASTER_ADR", "host0", 1)), "environment/missing-variable", ["host1"], style="rank"),
    Case("the init file is stale", together(flag("--init-method", INIT_FILE, 0, 1), shared_file("left")), "environment/stale-init-file", BOTH),
    Case("the init file is on local disks", flag("--init-method", "file:///run/lab/init", 0, 1), "environment/init-file-not-shared", BOTH),
    Case("the init file's folder is missing on one", together(flag("--init-method", "file:///run/job/init", 0, 1), inside(0, "mkdir /run/job")), "environment/init-file-not-shared", ["host1"]),
]  # fmt: skip

HOST = [
    Case("64k of shared memory on one", shared_memory("64k", 1), "host/shared-memory-small", ["host1"], "warn"),
    Case("64k of shared memory on all of 3", shared_memory("64k", 0, 1, 2), "host/shared-memory-small", ALL3, "warn", hosts=3),
    Case("/dev/shm is closed to the user", together(as_user(0, 1), inside(1, "chmod 0555 /dev/shm")), "host/shared-memory-permission", ["host1"], "warn"),
    Case("16 open files", shell("ulimit -S -n 16", 1), "host/open-files-limit", ["host1"], torch="2 s"),
    Case("64 open files", shell("ulimit -S -n 64", 1), "host/open-files-limit", ["host1"], "warn", torch="never (trains)"),
    Case("500 MB of address space", shell("ulimit -S -v 500000", 1), "environment/torch-broken", ["host1"]),
    Case("20 ports for outgoing connections", port_range(40000, 40019, 1), "host/ports-exhaustible", ["host1"], "warn"),
    Case("MASTER_PORT among the ports for anybody", flag("--master-port", "40000", 0, 1), "host/master-port-ephemeral", ["host0"], "warn", options=(1, 2)),
    Case("a privileged port", together(as_user(0, 1), flag("--master-port", "80", 0, 1)), "host/port-privileged", ["host0"], wait=8),
    Case("a rank of an earlier run", leftover(1), "host/leftover-processes", ["host1"], "warn"),
    Case("a rank of an earlier run holds another port", leftover(0, 23456), "host/leftover-processes", ["host0"], "warn"),
    Case("a rank of an earlier run holds MASTER_PORT", leftover(0, 29500), "network/port-in-use", ["host0"]),
    Case("a clock 30 s ahead, 2 nodes", clock(30, 1), "host/clock-skew", BOTH, "warn", "one-of", by_hand=usual_installation),
    Case("a clock 30 s behind, 3 nodes", clock(-30, 2), "host/clock-skew", ["host2"], "warn", hosts=3, by_hand=usual_installation),
    Case("a name server that drops packets", silent_name_server(1, 0), "host/dns-slow", ["host1"], "warn", within=25, torch="+10 s a look-up, no cause"),
    Case("own name unknown, one node alone", together(name_removed(0, "host0"), one_node), "host/rendezvous-name", ["host0"], hosts=1, options=(1, 2), torch="at once, a name only"),
    Case("a silent name server, 127.0.1.1 on both", together(own_name_at("127.0.1.1", 0, 1), silent_name_server(0, 1), silent_name_server(1, 0)), LOOPBACK, BOTH, also=[Root("host/dns-slow", BOTH, "warn")], master="10.77.0.10", within=15, torch="+10 s a look-up, one side"),
    Case("host names of digits", variable("GLOO_SOCKET_IFNAME", "eth0", 0, 1), "host/hostname-numeric", ["6841231", "6841232"], hosts=["6841231", "6841232"], curable=True, torch="3 s, an address nobody has"),
    Case("host names of digits, master by address", nothing, LOOPBACK, ["6841231", "6841232"], hosts=["6841231", "6841232"], master="10.77.0.10"),
]  # fmt: skip

NETWORK = [
    Case("/etc/hosts is not read on node 1", inside(1, "echo hosts: dns > /etc/nsswitch.conf"), "network/master-unresolvable", ["host1"], curable=True),
    Case("the master's name means nobody on node 1 of 3", name_at(1, "host0", NOBODY), "network/master-resolves-differently", ["host1"], hosts=3, curable=True, live=False),
    Case("the master's name comes after 4 s", named_late(1, "host0", 4), "network/dns-not-ready", ["host1"], "warn", within=14),
    Case("no route to the master", together(other_subnet(1, "10.88.0.11/24"), own_name_at("10.88.0.11", 1)), "network/no-route", ["host1"], curable=True, live=False, by_hand=together(other_subnet(1, "10.77.0.11/24"), own_name_at("10.77.0.11", 1)), torch="0.3 s, address is garbage"),
    Case("node 0's netmask leaves node 1 out", other_subnet(0, "10.77.0.10/32"), "network/port-filtered", ["host0"], curable=True, live=False),
    Case("node 1's netmask leaves node 0 out", other_subnet(1, "10.77.0.11/32"), "network/no-route", ["host1"], curable=True, live=False),
    Case("one of 3 has another netmask", other_subnet(1, "10.77.0.11/31"), "network/no-route", ["host1"], hosts=3, within=20),
    Case("node 0 answers by a gateway that is none", inside(0, "ip route add {host1}/32 via 10.77.0.99"), "network/port-filtered", ["host0"], curable=True, live=False),
    Case("node 1 sends by a gateway that is none", inside(1, "ip route add {host0}/32 via 10.77.0.99"), "network/master-unreachable", ["host1"], curable=True, live=False),
    Case("node 0 has no route back", together(other_subnet(1, "10.88.0.11/24"), own_name_at("10.88.0.11", 1), inside(1, "ip route add 10.77.0.0/24 dev eth0")), "network/port-filtered", ["host0"], curable=True, live=False),
    Case("a strict rp_filter, and another way back", together(second_network("10.99.0.10/24", "10.99.0.11/24", joined=True), inside(0, STRICT)), "network/master-unreachable", ["host0"], curable=True, live=False),
    Case("IPv4 and IPv6 mixed", together(own_name_at("10.77.0.10", 0), own_name_at("fd77::b", 1)), "network/ipv6-mismatch", ["host1"], subnets=["10.77.0.0/24", "fd77::/64"], master="10.77.0.10", torch="0.5 s, cryptic"),
    Case("own names at docker0", together(docker0(0, 1), own_name_at("172.17.0.1", 0, 1)), "network/wrong-interface", BOTH),
    Case("own name of one at docker0, 192.168", together(docker0(1), own_name_at("172.17.0.1", 1)), "network/wrong-interface", ["host1"], subnets=[PRIVATE_LAN]),
    Case("what answers for the master is silent", forwarded_into_silence(1, 0), "store/silent", ["host0"], curable=True, live=False, torch="never"),
    Case("a silent listener holds the port, 3 nodes", port_held(0, SILENT_LISTENER), "network/port-in-use", ["host0"], hosts=3),
]  # fmt: skip

MESH = [
    Case("one link of 3 is one-way", deaf_to(1, 2), "mesh/one-way", ["host1"], hosts=3),
    Case("one link of 3 is one-way, the other way", deaf_to(2, 1), "mesh/one-way", ["host2"], "warn", hosts=3),
    Case("node 2 of 3 is isolated", cut(2, 0, 1), "mesh/node-isolated", ["host2"], hosts=3),
    Case("node 3 of 4 is isolated", cut(3, 0, 1, 2), "mesh/node-isolated", ["host3"], hosts=4, nproc=1),
    Case("node 2 of 3 accepts nothing", deaf_to(2, 0, 1), "mesh/peer-ports-blocked", ["host2"], "warn", hosts=3),
    Case("node 0 of 3 accepts nothing", deaf_to(0, 1, 2), "mesh/peer-ports-blocked", ["host0"], hosts=3),
    Case("node 2 of 3 reaches nobody", mute_to(2, 0, 1), "mesh/one-way", ["host2"], hosts=3),
    Case("one pair of 4 is cut", cut(1, 2), "mesh/peer-ports-blocked", ["host1"], hosts=4, nproc=1),
    Case("one pair of 5 is cut", cut(3, 2), "mesh/peer-ports-blocked", ["host3"], hosts=5, nproc=1),
    Case("one pair of 3 is cut in the switch", cut_in_switch((1,), (2,)), "mesh/peer-ports-blocked", ["host1", "host2"], blame="one-of", hosts=3, by_hand=switch_repaired),
    Case("2 and 2 nodes", together(deaf_to(0, 2, 3), deaf_to(1, 2, 3), deaf_to(2, 0, 1), deaf_to(3, 0, 1)), "mesh/partition", ["host0", "host1", "host2", "host3"], hosts=4, nproc=1),
    Case("2 and 2 nodes, by the switch", cut_in_switch((0, 1), (2, 3)), "mesh/partition", ["host0", "host1", "host2", "host3"], blame="one-of", hosts=4, nproc=1, by_hand=switch_repaired),
    Case("3 and 2 nodes, by the switch", cut_in_switch((0, 1, 2), (3, 4)), "mesh/partition", ["host3", "host4"], hosts=5, nproc=1, by_hand=switch_repaired),
    Case("large packets vanish", nft(1, 'iifname "eth0" meta length > 1294 drop'), "mesh/mtu-blackhole", ["host1"], torch="never"),
    Case("large packets vanish, its own too", nft(1, "meta length > 1294 drop"), "mesh/mtu-blackhole", ["host1"], torch="never"),
    Case("large packets vanish, one of 3", nft(2, 'iifname "eth0" meta length > 1294 drop'), "mesh/mtu-blackhole", ["host2"], hosts=3, torch="never"),
    Case("one of 3 sends slowly", slow(2), "mesh/slow-link", ["host2"], "warn", hosts=3, by_hand=shapers_removed, needs=["tc"], torch="none, 60 times slower"),
    Case("one of 4 sends slowly", slow(1), "mesh/slow-link", ["host1"], "warn", hosts=4, nproc=1, by_hand=shapers_removed, needs=["tc"], torch="none, 60 times slower"),
    Case("one of 2 damages data", damages(1), "collective/wrong-result", BOTH, blame="one-of", by_hand=card_changed(1), torch="none, wrong results"),
    Case("one of 3 damages data", damages(2), "collective/wrong-result", ["host1", "host2"], blame="one-of", hosts=3, by_hand=card_changed(2), torch="none, wrong results"),
    Case("one of 3 loses packets", loses(1, 10), "mesh/packet-loss", ["host1"], "warn", hosts=3, torch="none, slower"),
]  # fmt: skip

PROCESSES = [
    Case("a rank is stopped", signalled_rank(1, 2, signal.SIGSTOP), "barrier/rank-stopped", ["host1"], by_hand=nothing, within=15, torch="silent 1800 s"),
    Case("rank 0 is stopped", signalled_rank(0, 0, signal.SIGSTOP), "barrier/rank-stopped", ["host0"], by_hand=nothing, within=15, torch="silent 1800 s"),
    Case("a rank is killed", signalled_rank(1, 3, signal.SIGKILL), "barrier/rank-missing", ["host1"], by_hand=nothing, torch="at once, no cause"),
    Case("the ranks of one node share a busy core", starved(1, 2, 3), "collective/slow-rank", ["host1"], "warn", by_hand=nothing, torch="none, slower"),
    Case("a rank of 3 nodes has a busy core", starved(2, 2, others=40), "collective/slow-rank", ["host2"], "warn", hosts=3, nproc=1, by_hand=load_ended, torch="none, slower"),
    Case("a whole node is killed", killed_doctor(1), "store/node-lost", ["host1"], by_hand=nothing, killed=["host1"], within=15, torch="at once, no cause"),
]  # fmt: skip

TWO_AT_ONCE = [
    Case("two: 127.0.1.1, and a port anybody may get", together(own_name_at("127.0.1.1", 0, 1), flag("--master-port", "40000", 0, 1)), LOOPBACK, BOTH, also=[Root("host/master-port-ephemeral", ["host0"], "warn")]),
    Case("two: the port is dropped, little shared memory", together(master_port(0, "drop"), shared_memory("64k", 1)), "network/port-filtered", ["host0"], also=[SMALL_SHM]),
    Case("two: no such interface, few ports", together(variable("GLOO_SOCKET_IFNAME", "ib0", 1), port_range(40000, 40019, 0)), NO_INTERFACE, ["host1"], also=[Root("host/ports-exhaustible", ["host0"], "warn")]),
    Case("two: the ids differ, a misspelled variable", together(c10d("a", "b"), variable("GLOO_SOCKET_IFNAM", "eth0", 1)), "environment/rendezvous-id-mismatch", BOTH, blame="one-of", also=[Root("environment/misspelled-variable", ["host1"], "warn")]),
    Case("two: a stale init file, little shared memory", together(flag("--init-method", INIT_FILE, 0, 1), shared_file("left"), shared_memory("64k", 1)), "environment/stale-init-file", BOTH, also=[SMALL_SHM]),
    Case("two: no such interface on one, another setting on another of 3", together(variable("GLOO_SOCKET_IFNAME", "ib0", 1), variable("TORCH_GLOO_LAZY_INIT", "1", 2)), NO_INTERFACE, ["host1"], hosts=3, also=[Root("environment/setting-mismatch", ["host2"])]),
    Case("two: unknown name on one, a web server on the port", together(name_removed(1, "host0"), port_held(0, HTTP_SERVER)), "network/foreign-service", ["host0"], also=[Root("network/master-unresolvable", ["host1"])]),
    Case("two: one pair of 4 is cut, another node has no such interface", together(cut(1, 2), variable("GLOO_SOCKET_IFNAME", "ib0", 3)), "mesh/peer-ports-blocked", ["host1"], hosts=4, nproc=1, also=[Root(NO_INTERFACE, ["host3"])]),
    Case("two: one pair of 4 is cut, a rank of an earlier run", together(cut(1, 2), leftover(3)), "mesh/peer-ports-blocked", ["host1"], hosts=4, nproc=1, also=[Root("host/leftover-processes", ["host3"], "warn")]),
    Case("two: 127.0.1.1, and node 2 of 3 is not started", together(own_name_at("127.0.1.1", 0, 1), not_started(2)), "store/nodes-missing", ["node2"], hosts=3, curable=True, by_hand=start_all, also=[Root(LOOPBACK, BOTH)]),
    Case("two: the port is dropped, a rank of an earlier run", together(master_port(0, "drop"), leftover(1)), "network/port-filtered", ["host0"], also=[Root("host/leftover-processes", ["host1"], "warn")]),
    Case("two: node 2 of 3 is isolated, few open files", together(cut(2, 0, 1), shell("ulimit -S -n 64", 1)), "mesh/node-isolated", ["host2"], hosts=3, also=[Root("host/open-files-limit", ["host1"], "warn")]),
]  # fmt: skip

PATIENT = 30.0
"""Seconds of ``--wait`` where it decides nothing: so that both nodes meet on a busy machine, too."""
_ROWS = [*ENVIRONMENT, *HOST, *NETWORK, *MESH, *PROCESSES, *TWO_AT_ONCE, *TRUST, *WAYS]
FIELD_CASES = [case if case.curable or case.wait != WAIT else replace(case, wait=PATIENT) for case in _ROWS]
ALL_CASES = [*CASES, *FIELD_CASES]
"""The whole table."""
