"""The table, stage network: the way to the master."""

# ruff: noqa: E501 - a case is a line, however long

from __future__ import annotations

from tests.lab.cases.common import BOTH, PRIVATE_LAN, SMALL_SHM, TWO_NETWORKS
from tests.lab.faults import everywhere, inside, together
from tests.lab.faults.host import HTTP_SERVER, OUTGOING, SILENT_LISTENER, leftover, port_held, shared_memory
from tests.lab.faults.launch import as_user, c10d, flag, variable
from tests.lab.faults.links import (
    behind_nat,
    bystander_at,
    cable,
    docker0,
    flaps,
    flaps_no_more,
    half_routed,
    narrow_mask,
    network_of_its_machine,
    other_card,
    other_subnet,
    plugged,
    published,
    routed,
    same_card,
    second_card,
    second_network,
    wide_mask,
)
from tests.lab.faults.names import name_at, name_removed, named_late, own_name_at
from tests.lab.faults.packet_filter import (
    FROM_OTHERS,
    deaf_to,
    iptables,
    istio,
    istio_off,
    marked,
    master_port,
    nft,
    published_by_docker,
    published_for_another,
    service,
    sidecar,
    sidecar_off,
)
from tests.lab.harness.case import Case, Root, patient
from tests.lab.harness.host import NOBODY_UID

NOBODY, FLOATING = "10.77.0.200", "10.77.0.50"
UNREACHABLE, WRONG = "network/master-unreachable", "network/wrong-interface"
LIMITED = "tcp flags & (syn | ack) == syn limit rate over 1/second burst 2 packets drop"
ANY_LIMITED = "tcp flags syn limit rate over 1/second burst 2 packets drop"
"""Without an exception for lo."""
STRICT = (
    "ip route add {host1}/32 dev eth1; for i in all eth0 eth1; do echo 1 > /proc/sys/net/ipv4/conf/$i/rp_filter; done"
)
"""Answers to host 1 leave by eth1; what it sends to eth0 is dropped for that."""
SOURCE = "ip address add 10.99.9.9/32 dev lo && ip route replace 10.77.0.0/24 dev eth0 src 10.99.9.9"
TABLE = "ip route add default via 10.77.0.99 dev eth0 table 100"
BY_MARK = f"{TABLE} && ip rule add fwmark 0x1 lookup 100"
SOURCE_RULE = "ip address add 10.99.9.9/32 dev lo && nft 'add table ip n; add chain ip n out {{ type nat hook postrouting priority 100; }}; add rule ip n out ip daddr {host0} snat to 10.99.9.9'"
TARGET_RULE = "nft 'add table ip n; add chain ip n out {{ type nat hook output priority -100; }}; add rule ip n out ip daddr {host0} tcp dport 29500 dnat to {host1}'"
MACVLAN = (
    "ip link add link eth0 name mv0 type macvlan mode bridge && ip link set mv0 up && ip address add {host1}/32 dev mv0"
)
DOCKER_TAKES_LAN = inside(
    1,
    "ip link add br-3f2a9c1b7d04 type bridge && ip link set br-3f2a9c1b7d04 up && ip address add 10.77.0.1/24 dev br-3f2a9c1b7d04 && ip route del 10.77.0.0/24 dev eth0 && ip route add 10.77.0.0/24 dev eth0 src {host1} metric 100",
)
CLONE = together(other_subnet(2, "10.77.0.11/24"), own_name_at("10.77.0.11", 2))
VPN = together(second_network("", "10.16.0.19/16", interface="tun0"), inside(1, "ip route add 10.77.0.0/25 dev tun0"))
WG_QUICK = inside(
    1,
    "ip link add wg0 type bridge && ip link set wg0 arp off up && ip address add 10.200.0.2/32 dev wg0 && ip route add default dev wg0 table 51820 && ip rule add not fwmark 0xca6c table 51820 && ip rule add table main suppress_prefixlength 0",
)
UNTRACKED = together(
    nft(1, *FROM_OTHERS, "meta l4proto icmp accept", policy="drop"),
    iptables(1, "-t raw -A PREROUTING -p tcp --sport 29500 -j CT --notrack"),
)
DOWN = together(second_network("10.99.0.10/24", "10.99.0.11/24", joined=True), inside(1, "ip link set dev eth1 down"))
TOKEN = variable("DISTDOCTOR_TOKEN", "0123456789abcdef", 0, 1)
"""At a service's address node 0 cannot be asked whether a report is its own."""
SERVICE = everywhere("ip link add kube-ipvs0 type bridge && ip address add 10.96.0.77/32 dev kube-ipvs0")

CASES = [
    Case("docker0 on both", together(docker0(0, 1), variable("GLOO_SOCKET_IFNAME", "docker0", 0, 1)), "network/wrong-interface", ["host0", "host1"]),
    Case("the master's name means nobody on node 1", name_at(1, "host0", NOBODY), "network/master-resolves-differently", ["host1"], curable=True, live=False, alone=[UNREACHABLE]),
    Case("the master's name means node 1 on node 1", name_at(1, "host0", "10.77.0.11"), "network/master-resolves-differently", ["host1"], curable=True, live=False),
    Case("the master's name is unknown on node 1", name_removed(1, "host0"), "network/master-unresolvable", ["host1"], curable=True),
    Case("the master's name is unknown everywhere", together(name_removed(0, "gpu0"), name_removed(1, "gpu0")), "network/master-unresolvable", ["host0", "host1"], curable=True, master="gpu0"),
    Case("the master is nobody's address", flag("--master-addr", NOBODY, 0, 1), "network/master-not-node0", ["host0", "host1"], curable=True, alone=[UNREACHABLE]),
    Case("the master is node 1's address", flag("--master-addr", "host1", 0, 1), "network/master-not-node0", ["host0", "host1"], curable=True),
    Case("the master is localhost", flag("--master-addr", "localhost", 0, 1), "network/master-not-node0", ["host0", "host1"], curable=True),
    Case("the master's port is reset", master_port(0, "reject with tcp reset"), "network/port-refused", ["host0"], curable=True),
    Case("the master's port is dropped", master_port(0, "drop"), "network/port-filtered", ["host0"]),
    Case("the master's port is dropped, under torchrun ranks", master_port(0, "drop"), "network/port-filtered", ["host0"], style="rank"),
    Case("the master's port is dropped by iptables", iptables(0, "-A INPUT ! -i lo -p tcp --dport 29500 -j DROP"), "network/port-filtered", ["host0"]),
    Case("the master's port is dropped for itself too", nft(0, "tcp dport 29500 drop"), "network/port-filtered", ["host0"]),
    Case("the master's port is dropped on the way out", nft(1, "tcp dport 29500 drop", hook="output"), "network/port-filtered", ["host1"]),
    Case("node 0 drops everything of node 1", nft(0, "ip saddr {host1} drop"), "network/port-filtered", ["host0"], curable=True),
    Case("node 0 drops the port for node 2 of 3", nft(0, "ip saddr {host2} tcp dport 29500 drop"), "network/port-filtered", ["host0"], hosts=3),
    Case("the master's port is dropped, IPv6", master_port(0, "drop"), "network/port-filtered", ["host0"], subnets=["fd77::/64"]),
    Case("the master's port is rejected", master_port(0, "reject"), "network/port-rejected", ["host0"]),
    Case("users may not connect out of node 1", together(as_user(0, 1), iptables(1, "-A OUTPUT -o eth0 -p tcp --syn -m owner ! --uid-owner 0 -j REJECT")), "network/port-rejected", ["host1"], by_hand=iptables(1, "-F OUTPUT")),
    Case("the master's port is prohibited", master_port(0, "reject with icmpx type admin-prohibited"), "network/port-rejected", ["host0"]),
    Case("the master's port is rejected by iptables", iptables(0, "-A INPUT ! -i lo -p tcp --dport 29500 -j REJECT"), "network/port-rejected", ["host0"]),
    Case("a silent listener holds the port", port_held(0, SILENT_LISTENER), "network/port-in-use", ["host0"]),
    Case("another user's process holds the port", port_held(0, SILENT_LISTENER, uid=NOBODY_UID), "network/port-in-use", ["host0"]),
    Case("an outgoing connection holds the port", port_held(0, OUTGOING), "network/port-in-use", ["host0"]),
    Case("a web server holds the port", port_held(0, HTTP_SERVER), "network/foreign-service", ["host0"]),
    *patient(
        Case("a rank of an earlier run holds MASTER_PORT", leftover(0, 29500), "network/port-in-use", ["host0"]),
        Case("/etc/hosts is not read on node 1", inside(1, "echo hosts: dns > /etc/nsswitch.conf"), "network/master-unresolvable", ["host1"], curable=True),
        Case("/etc/hosts is for root alone on node 1", together(as_user(1), inside(1, "chmod 600 /etc/hosts")), "network/master-unresolvable", ["host1"], curable=True),
        Case("the master's name means nobody on node 1 of 3", name_at(1, "host0", NOBODY), "network/master-resolves-differently", ["host1"], hosts=3, curable=True, live=False, alone=[UNREACHABLE]),
        Case("the master's name comes after 4 s", named_late(1, "host0", 4), "network/dns-not-ready", ["host1"], "warn", within=14),
        Case("no route to the master", together(other_subnet(1, "10.88.0.11/24"), own_name_at("10.88.0.11", 1)), "network/no-route", ["host1"], curable=True, by_hand=together(other_subnet(1, "10.77.0.11/24"), own_name_at("10.77.0.11", 1)), torch="0.3 s, address is garbage"),
        Case("node 0's netmask leaves node 1 out", other_subnet(0, "10.77.0.10/32"), "network/port-filtered", ["host0"], curable=True),
        Case("node 1's netmask leaves node 0 out", other_subnet(1, "10.77.0.11/32"), "network/no-route", ["host1"], curable=True),
        Case("one of 3 has another netmask", other_subnet(1, "10.77.0.11/31"), "network/no-route", ["host1"], hosts=3, within=20),
        Case("node 1's netmask leaves node 0 to a gateway that forwards nothing", narrow_mask, "network/port-filtered", ["host1"], hosts=3, curable=True, live=False),
        Case("node 1's netmask takes in the subnet of node 0", wide_mask, UNREACHABLE, ["host1"], hosts=3, curable=True, live=False, torch="0.3 s, address is garbage"),
        Case("node 0 answers by a gateway that is none", inside(0, "ip route add {host1}/32 via 10.77.0.99"), "network/port-filtered", ["host0"], curable=True),
        Case("node 1 sends by a gateway that is none", inside(1, "ip route add {host0}/32 via 10.77.0.99"), "network/master-unreachable", ["host1"], curable=True),
        Case("node 1 sends by one of two next hops, and nobody is at the heavier", inside(1, "ip route add {host0}/32 nexthop via {host0} dev eth0 nexthop via 10.77.0.99 dev eth0 weight 255"), "network/master-unreachable", ["host1"], curable=True),
        Case("node 1's rule for its own address leads to a gateway that is none", inside(1, f"{TABLE} && ip rule add from {{host1}} lookup 100"), "network/master-unreachable", ["host1"], curable=True, live=False),
        Case("node 1's rule for all but a mark leads to a gateway that is none", inside(1, f"{TABLE} && ip rule add not fwmark 0x1 lookup 100"), "network/master-unreachable", ["host1"], curable=True, live=False),
        Case("node 1's rule for what it sends itself leads to a gateway that is none", inside(1, f"{TABLE} && ip rule add iif lo lookup 100"), "network/master-unreachable", ["host1"], curable=True, live=False),
        Case("node 0's rule for the port leads to a gateway that is none", inside(0, f"{TABLE} && ip rule add to {{host1}} ipproto tcp sport 29500 lookup 100"), "network/port-filtered", ["host0"], curable=True),
        Case("node 0 marks its answers, and a rule for the mark leads to a gateway that is none", together(marked(0, "tcp sport 29500 meta mark set 0x1"), inside(0, BY_MARK)), "network/port-filtered", ["host0"], curable=True),
        Case("node 1 marks what goes to the port, and a rule for the mark leads to a gateway that is none", together(iptables(1, "-t mangle -A OUTPUT -p tcp --dport 29500 -j MARK --set-mark 1"), inside(1, BY_MARK)), "network/master-unreachable", ["host1"], curable=True, live=False),
        Case("a rule of node 1 prohibits what goes to node 0", inside(1, "ip rule add to {host0} prohibit"), "network/no-route", ["host1"], curable=True),
        Case("node 0 has no route back", together(other_subnet(1, "10.88.0.11/24"), own_name_at("10.88.0.11", 1), inside(1, "ip route add 10.77.0.0/24 dev eth0")), "network/port-filtered", ["host0"], curable=True),
        Case("a strict rp_filter, and another way back", together(second_network("10.99.0.10/24", "10.99.0.11/24", joined=True), inside(0, STRICT)), "network/master-unreachable", ["host0"], curable=True),
        Case("IPv4 and IPv6 mixed", together(own_name_at("10.77.0.10", 0), own_name_at("fd77::b", 1)), "network/ipv6-mismatch", ["host1"], subnets=["10.77.0.0/24", "fd77::/64"], master="10.77.0.10", torch="0.5 s, cryptic"),
        Case("own names at docker0", together(docker0(0, 1), own_name_at("172.17.0.1", 0, 1)), "network/wrong-interface", BOTH),
        Case("own name of one at docker0, 192.168", together(docker0(1), own_name_at("172.17.0.1", 1)), "network/wrong-interface", ["host1"], subnets=[PRIVATE_LAN]),
        Case("a silent listener holds the port, 3 nodes", port_held(0, SILENT_LISTENER), "network/port-in-use", ["host0"], hosts=3),
        Case("two: the port is dropped, little shared memory", together(master_port(0, "drop"), shared_memory("64k", 1)), "network/port-filtered", ["host0"], also=[SMALL_SHM]),
        Case("two: unknown name on one, a web server on the port", together(name_removed(1, "host0"), port_held(0, HTTP_SERVER)), "network/foreign-service", ["host0"], also=[Root("network/master-unresolvable", ["host1"])]),
        Case("two: the port is dropped, a rank of an earlier run", together(master_port(0, "drop"), leftover(1)), "network/port-filtered", ["host0"], also=[Root("host/leftover-processes", ["host1"], "warn")]),
        Case("a VPN of node 1 takes part of the LAN", VPN, "network/master-unreachable", ["host1"], curable=True),
        Case("wg-quick takes the default route by which node 1 gets to node 0", together(routed("10.5.0"), WG_QUICK), "network/port-filtered", ["host1"], hosts=3, curable=True, live=False),
        Case("node 0's packets may not pass a router", together(routed("10.5.0"), inside(0, "echo 1 > /proc/sys/net/ipv4/ip_default_ttl")), "network/port-filtered", ["host0"], hosts=3, curable=True, live=False),
        Case("node 1's card is a port of a bridge, and has the address", inside(1, "ip link add br0 type bridge && ip link set br0 up && ip link set eth0 master br0"), UNREACHABLE, ["host1"], curable=True),
        Case("node 1 sends by a router whose firewall sees half of the connection", half_routed, "store/silent", ["host1"], hosts=3, curable=True, live=False),
        Case("node 1 is to encrypt what goes to node 0, and has no association", inside(1, "ip xfrm policy add src {host1}/32 dst {host0}/32 dir out tmpl src {host1} dst {host0} proto esp"), "network/port-filtered", ["host1"], curable=True, live=False),
        Case("node 0 wants encrypted what comes from node 1", inside(0, "ip xfrm policy add src {host1}/32 dst {host0}/32 dir in tmpl src {host1} dst {host0} proto esp"), "network/port-filtered", ["host0"], curable=True),
        Case("a policy of IPsec drops all that node 1 sends", inside(1, "ip xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir out action block"), "network/master-unreachable", ["host1"], curable=True, live=False),
        Case("node 1 does not track what answers it, and its filter lets in what belongs to a connection", UNTRACKED, "network/port-filtered", ["host1"]),
        Case("node 1's IPv6 netmask leaves node 0 out", inside(1, "ip address flush dev eth0 scope global && ip address add {host1}/128 dev eth0 nodad"), "network/no-route", ["host1"], subnets=["fd77::/64"], curable=True),
        Case("the cable of node 2 of 3 is out", cable(2, "down"), UNREACHABLE, ["host2"], hosts=3, curable=True, by_hand=cable(2, "up")),
        Case("node 1's route to the master is a blackhole", inside(1, "ip route add blackhole {host0}/32"), "network/no-route", ["host1"], curable=True),
        Case("the interface to the master is down", DOWN, "network/no-route", ["host1"], master="10.99.0.10", curable=True),
        Case("node 1 is behind NAT, and dials", behind_nat("172.28.0"), WRONG, ["host1"], "warn", hosts=3, by_hand=network_of_its_machine, torch="never (trains)"),
        Case("node 1 is behind NAT, and is dialled", behind_nat("10.5.0"), WRONG, ["host1"], hosts=3, by_hand=network_of_its_machine),
        Case("node 1 is a container behind docker0, which node 0 has, too", together(behind_nat("172.17.0"), docker0(0)), WRONG, ["host1"], hosts=3, subnets=["192.168.7.0/24"], by_hand=network_of_its_machine),
        Case("node 1 is a container, and node 0 has a default route that leads nowhere", together(behind_nat("172.17.0"), inside(0, "ip route add default via 192.168.7.99")), WRONG, ["host1"], hosts=3, subnets=["192.168.7.0/24"], by_hand=network_of_its_machine),
        Case("node 0 is a container that does not reach its own published port", published, "network/master-not-node0", ["host0"], hosts=3, alone=["store/node-lost"], torch="refused, one side"),
        Case("node 0 lets in 4 connections of a host", iptables(0, "-A INPUT ! -i lo -p tcp --syn -m connlimit --connlimit-above 4 --connlimit-mask 32 -j REJECT --reject-with tcp-reset"), "network/connection-limit", ["host0"], torch="refused, one side"),
        Case("node 0 lets in 4 connections, and drops the others", nft(0, 'iifname "lo" accept', "tcp flags & (syn | ack) == syn ct count over 4 drop"), "network/connection-limit", ["host0"], within=40, torch="never"),
        Case("node 0 refuses a host's connections after 3 a minute", iptables(0, "-A INPUT ! -i lo -p tcp --syn -m hashlimit --hashlimit-above 3/minute --hashlimit-burst 3 --hashlimit-mode srcip --hashlimit-name lab -j REJECT --reject-with tcp-reset"), "network/connection-limit", ["host0"], curable=True, live=False, alone=["network/port-refused"], torch="not measured"),
        Case("node 0 drops connections beyond 6 a minute, its own too", nft(0, "tcp flags syn limit rate over 6/minute burst 2 packets drop"), "network/connection-limit", ["host0"], curable=True, wait=12, live=False, alone=["network/port-filtered"], torch="not measured"),
        Case("node 0 lets in 3 connections a minute, and drops the others", nft(0, 'iifname "lo" accept', "tcp flags & (syn | ack) == syn limit rate 3/minute burst 3 packets accept", "tcp flags & (syn | ack) == syn drop"), "network/connection-limit", ["host0"], curable=True, wait=12, live=False, alone=["network/port-filtered"], torch="not measured"),
        Case("node 1 sends by another card in the LAN, which leads elsewhere", second_card(1, "10.77.0.111/24"), "network/overlapping-subnets", ["host1"], curable=True, torch="0.3 s, address is garbage"),
        Case("node 0 answers by another card in the LAN, which leads elsewhere", second_card(0, "10.77.0.110/24"), "network/overlapping-subnets", ["host0"], curable=True, alone=["network/port-filtered"], torch="silent > 120 s"),
        Case("a docker network of node 1 has the LAN's own addresses", DOCKER_TAKES_LAN, "network/overlapping-subnets", ["host1"], curable=True, torch="0.3 s, address is garbage"),
        Case("node 0 forwards the port to a container that is gone", published_for_another(0), "network/port-rejected", ["host0"], torch="4 s, address is garbage"),
        Case("a service leads to node 0, whose filter drops the port", together(service("train", "10.96.0.77"), TOKEN, nft(0, 'iifname "lo" accept', "tcp dport 29500 drop")), "network/port-filtered", ["host0"], master="train", curable=True, torch="not measured"),
        Case("a service leads to node 0, whose filter rejects the port", together(service("train", "10.96.0.77"), TOKEN, nft(0, 'iifname "lo" accept', "tcp dport 29500 reject")), "network/port-rejected", ["host0"], master="train", torch="not measured"),
        Case("docker publishes node 0's port for a container that is gone", published_by_docker(0), "network/port-rejected", ["host0"], torch="not measured"),
        Case("node 0 redirects the port to another one", iptables(0, "-t nat -A PREROUTING -p tcp --dport 29500 -j REDIRECT --to-ports 8080"), "network/port-refused", ["host0"], curable=True, torch="not measured"),
        Case("node 1 sends what is for the port to another host", iptables(1, "-t nat -A OUTPUT -p tcp --dport 29500 -j DNAT --to-destination 10.77.0.99"), "network/port-rejected", ["host1"], torch="not measured"),
        Case("istio's rules on node 1, and no sidecar yet", istio(1), "network/port-refused", ["host1"], curable=True, live=False, by_hand=istio_off(1), torch="not measured"),
        Case("a sidecar takes what node 1 sends", sidecar(1, "output"), "network/service-mesh", ["host1"], curable=True, by_hand=sidecar_off(1)),
        Case("a sidecar takes what comes to node 0", sidecar(0, "prerouting"), "network/service-mesh", ["host0"], curable=True, by_hand=sidecar_off(0)),
        Case("node 2 has node 1's address besides its own", plugged(2, "eth1", "10.77.0.11/24"), "network/duplicate-address", ["host2"], hosts=3, torch="refused, one side"),
        Case("node 2 is a clone at node 1's address", CLONE, "network/duplicate-address", ["host1", "host2"], hosts=3, blame="one-of", curable=True, live=False, alone=["store/node-lost"], printed_too=True, by_hand=together(other_subnet(2, "10.77.0.12/24"), own_name_at("10.77.0.12", 2))),
        Case("another host has the master's address", bystander_at("10.77.0.10/24"), "network/duplicate-address", ["host0"], hosts=3, curable=True, live=False, printed_too=True, by_hand=inside(2, "ip address del 10.77.0.10/24 dev eth1")),
        Case("node 0's address is on lo of node 1, too", inside(1, "ip address add {host0}/32 dev lo"), "network/duplicate-address", ["host1"], curable=True, live=False),
        Case("node 1 has an ARP entry of node 0's former card", inside(1, "ip neighbour replace {host0} lladdr 02:00:00:00:00:99 dev eth0 nud permanent"), "network/duplicate-address", ["host1"], curable=True, live=False, alone=["network/port-filtered"]),
        Case("node 0 does not answer ARP", inside(0, "echo 8 > /proc/sys/net/ipv4/conf/all/arp_ignore"), "network/arp-off", ["host0"], curable=True, live=False, alone=[UNREACHABLE]),
        Case("the master's address is on lo of node 0, which answers ARP for its card alone", inside(0, f"ip address add {FLOATING}/32 dev lo && echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore"), "network/arp-off", ["host0"], master=FLOATING, curable=True, live=False, alone=[UNREACHABLE]),
        Case("node 1 of 3 has a card without ARP", inside(1, "ip link set dev eth0 arp off"), "network/arp-off", ["host1"], hosts=3, curable=True, torch="silent > 120 s"),
        Case("node 1 is a clone with node 0's hardware address", same_card(0, 1), "network/duplicate-address", BOTH, blame="one-of", curable=True, live=False, alone=[UNREACHABLE], by_hand=other_card(1)),
        Case("the master's address is on every node", SERVICE, "network/master-resolves-differently", ["host1"], master="10.96.0.77", curable=True, live=False),
        Case("node 1 sends from an address that node 0 has no way back to", inside(1, SOURCE), "network/port-filtered", ["host1"], curable=True),
        Case("a rule of node 1 makes it send from an address that node 0 has no way back to", inside(1, SOURCE_RULE), "network/port-filtered", ["host1"], curable=True, torch="not measured"),
        Case("a rule of node 2 sends what is for node 0's port to node 1", inside(2, TARGET_RULE), "network/port-refused", ["host2"], hosts=3, curable=True, torch="not measured"),
        Case("node 2 has node 1's address on a macvlan", inside(2, MACVLAN), "network/duplicate-address", ["host2"], hosts=3, torch="not measured"),
        Case("two: a web server on the port, node 1's netmask leaves node 0 out", together(port_held(0, HTTP_SERVER), other_subnet(1, "10.77.0.11/32")), "network/foreign-service", ["host0"], also=[Root("network/no-route", ["host1"])]),
        Case("two: node 0 drops the port for node 2, node 1 other ports for node 0", together(nft(0, "ip saddr {host2} tcp dport 29500 drop"), deaf_to(1, 0)), "network/port-filtered", ["host0"], hosts=3, curable=True, also=[Root("mesh/peer-ports-blocked", ["host1"], "warn")]),
        Case("c10d at the address of node 0's second card", together(TWO_NETWORKS, c10d("a", "a")), "network/rendezvous-unhosted", ["host0"], master="10.99.0.10", options=(1, 2), torch="60 s, no cause"),
        Case("c10d at node 0's address, and its name is 127.0.1.1", together(own_name_at("127.0.1.1", 0, 1), variable("GLOO_SOCKET_IFNAME", "eth0", 0, 1), c10d("a", "a")), "network/rendezvous-unhosted", ["host0"], master="10.77.0.10", torch="60 s, no cause"),
        Case("c10d at localhost on node 1 of 3", together(c10d("a", "a", "a"), flag("--rdzv-endpoint", "localhost:29400", 1)), "network/master-not-node0", ["host1"], hosts=3, curable=True, torch="not measured"),
        Case("node 1's card goes down and up every few seconds", flaps(1, up=1), "network/link-flaps", ["host1"], "warn", by_hand=flaps_no_more(1), torch="none, slower"),
        Case("node 0's card goes down in the middle, for good", flaps(0, times=1, up=0.3, down=600, joined=True), "network/link-flaps", ["host0"], by_hand=flaps_no_more(0), within=30, alone=["store/node-lost"], torch="never"),
        Case("node 1's card goes down in the middle, for good", flaps(1, times=1, up=0.3, down=600, joined=True), "network/link-flaps", ["host1"], by_hand=flaps_no_more(1), within=30, alone=["store/node-lost"], torch="never"),
        Case("node 1's card goes down and up once", flaps(1, times=1, up=0.1, joined=True), "network/link-flaps", ["host1"], "warn", by_hand=flaps_no_more(1), torch="none, slower"),
        Case("node 0 lets in one connection a second, and drops the others", nft(0, 'iifname "lo" accept', "tcp flags & (syn | ack) == syn limit rate 1/second burst 1 packets accept", "tcp flags & (syn | ack) == syn drop"), "network/connection-limit", ["host0"], "warn", within=20, torch="none, starts later"),
        Case("node 0 lets in one connection a second after 5, and drops the others", nft(0, 'iifname "lo" accept', "tcp flags & (syn | ack) == syn limit rate 1/second burst 5 packets accept", "tcp flags & (syn | ack) == syn drop"), "network/connection-limit", ["host0"], "warn", within=20, torch="none, starts later"),
        Case("node 0 drops a host's connections beyond one a second", iptables(0, "-A INPUT ! -i lo -p tcp --syn -m hashlimit --hashlimit-above 1/second --hashlimit-burst 3 --hashlimit-mode srcip --hashlimit-name lab -j DROP"), "network/connection-limit", ["host0"], "warn", within=20, torch="none, starts later"),
        Case("node 0 drops connections beyond one a second, its own too", nft(0, ANY_LIMITED), "network/connection-limit", ["host0"], "warn", hosts=3, within=120, torch="none, starts later"),
        Case("node 0 drops connections beyond 30 a minute, its own too", nft(0, ANY_LIMITED.replace("1/second", "30/minute")), "network/connection-limit", ["host0"], "warn", wait=60, within=150, torch="none, starts later"),
        Case("node 0 of 3 drops connections beyond one a second", nft(0, 'iifname "lo" accept', LIMITED), "network/connection-limit", ["host0"], "warn", hosts=3, within=60, torch="none, starts later"),
    ),
]  # fmt: skip
