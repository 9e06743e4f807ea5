"""The table: what is wrong, and what distdoctor must say of it. One line per case."""

# ruff: noqa: E501 - a case is a line, however long

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tests.lab.cluster import NOBODY_UID
from tests.lab.faults import (
    FOREIGN_STORE,
    HTTP_SERVER,
    NO_CUDA,
    OUTGOING,
    SILENT_LISTENER,
    Fault,
    docker0,
    existing_folder,
    flag,
    in_working_folder,
    iptables,
    master_port,
    name_at,
    name_removed,
    nft,
    not_started,
    on_pythonpath,
    only_master_port,
    only_master_port_iptables,
    other_version,
    own_name_at,
    port_held,
    second_network,
    start_all,
    together,
    torch_installed,
    torch_removed,
    usual_installation,
    variable,
    working_folder_deleted,
)
from tests.lab.launch import Style

NODES_MISSING = "store/nodes-missing"
"""What any single node may say when it only sees that others did not come."""
WAIT = 6
"""Seconds of ``--wait`` in the cases where waiting goes on to its end."""
AT_ONCE = 10.0
"""Seconds from the last node's start within which a fault that waiting cannot cure must be named."""
AT_ONCE_LARGER = 15.0
"""The same for more than 3 nodes: here they share the cores of one machine, and each imports torch."""
AFTER_WAIT = 3.0
"""Seconds from the end of ``--wait`` within which a fault that waiting may cure must be named."""


@dataclass(frozen=True)
class Root:
    """A root that must be named, and whom it must blame."""

    check: str
    blamed: Sequence[str]
    severity: Literal["fail", "warn", "info"] = "fail"
    blame: Literal["all", "one-of"] = "all"


@dataclass(frozen=True)
class Case:
    """One fault and the verdict about it, or several at once."""

    name: str
    fault: Fault
    root: str
    """The check id that ``diagnose`` over all nodes' facts must name as the only root."""
    blamed: Sequence[str]
    severity: Literal["fail", "warn", "info"] = "fail"
    blame: Literal["all", "one-of"] = "all"
    also: Sequence[Root] = ()
    """The roots beside the first, where several things are wrong at once."""
    style: Style = "node"
    curable: bool = False
    """Waiting might cure it: it is said "so far" at once and judged at the end of ``--wait``."""
    live: bool = True
    """At least one node's own report names the root. False: only all facts together can tell."""
    verified: bool = False
    """The doctor tries the first option itself and says that it helps."""
    options: Sequence[int] = (1,)
    """The options that are carried out, each followed by a run that must pass."""
    by_hand: Fault | None = None
    """What a person does who follows a fix of ``root`` that is text only; those of ``also`` are carried out."""
    hosts: int | Sequence[str] = 2
    nproc: int = 2
    subnets: Sequence[str] = ("10.77.0.0/24",)
    interface: str = "eth0"
    master: str | None = None
    """MASTER_ADDR; the first host's name unless told."""
    flags: tuple[str, ...] = ()
    """Further flags of ``distdoctor check``."""
    killed: Sequence[str] = ()
    """The hosts on which the doctor itself is killed, so that no report comes from there."""
    needs: Sequence[str] = ()
    """Programs without which the fault cannot be made: where one is not installed, the case is skipped."""
    wait: float = WAIT
    """Seconds of ``--wait``."""
    within: float | None = None
    """Seconds to the verdict, where the fault itself takes longer than the usual bound."""
    torch: str = ""
    """When plain PyTorch says something for the first time; empty: what is usual for the check."""

    @property
    def roots(self) -> tuple[Root, ...]:
        """Every root that must be named."""
        return Root(self.root, self.blamed, self.severity, self.blame), *self.also

    @property
    def check_flags(self) -> tuple[str, ...]:
        """The flags of ``distdoctor check`` in this case."""
        return ("--wait", f"{self.wait:g}", *self.flags)

    @property
    def bound(self) -> float:
        """Seconds from the last node's start to the first report that names the fault."""
        if self.within is not None:
            return self.within
        if self.curable:
            return self.wait + AFTER_WAIT
        return AT_ONCE if self.size <= 3 else AT_ONCE_LARGER

    @property
    def size(self) -> int:
        """Nodes of its cluster."""
        return self.hosts if isinstance(self.hosts, int) else len(self.hosts)


TEN, PRIVATE_LAN = "10.77.0.0/24", "192.168.7.0/24"
NOBODY = "10.77.0.200"
LOOPBACK = "gloo/loopback-address"
FROM_OTHERS = ('iifname "lo" accept', "ct state established,related accept")
"""The nft rules after which only new connections from other hosts are left."""
NCCL_HOST = ("--backend", "nccl", "--until", "host")
"""Without a gloo group, and not as high as the GPUs that a lab may lack. A node alone does not know that low on the
ladder whether it talks to other hosts, so only the facts together tell."""

GLOO = [
    # The case this project began with.
    Case("127.0.1.1 on both", own_name_at("127.0.1.1", 0, 1), LOOPBACK, ["host0", "host1"], verified=True, options=(1, 2)),
    Case("127.0.1.1 on both, 192.168", own_name_at("127.0.1.1", 0, 1), LOOPBACK, ["host0", "host1"], subnets=[PRIVATE_LAN], verified=True),
    Case("::1 on node 1", own_name_at("::1", 1), LOOPBACK, ["host1"], verified=True),
    Case("127.0.1.1 on both, under torchrun", own_name_at("127.0.1.1", 0, 1), LOOPBACK, ["host0", "host1"], style="torchrun", verified=True),
    Case("127.0.1.1 on both, interfaces of other names", own_name_at("127.0.1.1", 0, 1), LOOPBACK, ["host0", "host1"], interface="enp0s31f6"),
    # One such node: the larger address connects, so 127 reaches 10 by luck, and is not reached from 192.168.
    Case("127.0.1.1 on node 1, 10.x", own_name_at("127.0.1.1", 1), LOOPBACK, ["host1"], "warn"),
    Case("127.0.1.1 on node 0, 10.x", own_name_at("127.0.1.1", 0), LOOPBACK, ["host0"], "warn"),
    Case("127.0.1.1 on node 1, 192.168", own_name_at("127.0.1.1", 1), LOOPBACK, ["host1"], subnets=[PRIVATE_LAN]),
    Case("127.0.1.1 on node 2 of 3, 192.168", own_name_at("127.0.1.1", 2), LOOPBACK, ["host2"], hosts=3, subnets=[PRIVATE_LAN]),
    Case("own name at ::1", together(own_name_at("::1", 0, 1)), LOOPBACK, ["host0", "host1"], subnets=["fd77::/64"]),
    Case("own name unknown on both", together(name_removed(0, "host0"), name_removed(1, "host1")), LOOPBACK, ["host0", "host1"], master="10.77.0.10"),
    Case("GLOO_SOCKET_IFNAME=lo on both", variable("GLOO_SOCKET_IFNAME", "lo", 0, 1), LOOPBACK, ["host0", "host1"]),
    Case("GLOO_SOCKET_IFNAME names no interface", variable("GLOO_SOCKET_IFNAME", "ib0", 1), "gloo/interface-not-found", ["host1"], verified=True, options=(1, 2)),
    Case("GLOO_SOCKET_IFNAME in NCCL's syntax", variable("GLOO_SOCKET_IFNAME", "^docker0", 0, 1), "gloo/interface-not-found", ["host0", "host1"]),
    Case("a second network without a route", together(second_network("", "10.55.1.11/24"), variable("GLOO_SOCKET_IFNAME", "eth1", 1)), "gloo/interface-unreachable", ["host1"], verified=True),
    Case("a second network without a route, dialling", together(second_network("", "10.99.1.11/24"), variable("GLOO_SOCKET_IFNAME", "eth1", 1)), "gloo/interface-unreachable", ["host1"], "warn"),
    Case("docker0 on both", together(docker0(0, 1), variable("GLOO_SOCKET_IFNAME", "docker0", 0, 1)), "network/wrong-interface", ["host0", "host1"]),
    Case("nccl only, 127.0.1.1 on both", own_name_at("127.0.1.1", 0, 1), "host/hostname-loopback", ["host0", "host1"], "warn", live=False, flags=NCCL_HOST),
    Case("nccl only, own name unknown", name_removed(1, "host1"), "host/hostname-unresolvable", ["host1"], "warn", live=False, master="10.77.0.10", flags=NCCL_HOST),
]  # fmt: skip

ENVIRONMENT = [
    Case("MASTER_ADDR not set", variable("MASTER_ADDR", None, 1), "environment/missing-variable", ["host1"], style="rank"),
    Case("RANK not set", variable("RANK", None, 1), "environment/missing-variable", ["host1"], style="rank"),
    Case("WORLD_SIZE not set", variable("WORLD_SIZE", None, 1), "environment/missing-variable", ["host1"], style="rank"),
    Case("MASTER_ADDR is a URL", variable("MASTER_ADDR", "tcp://host0:29500", 1), "environment/invalid-variable", ["host1"], style="rank"),
    Case("MASTER_PORT is no number", variable("MASTER_PORT", "abc", 1), "environment/invalid-variable", ["host1"], style="rank"),
    Case("MASTER_PORT is too large", variable("MASTER_PORT", "295000", 1), "environment/invalid-variable", ["host1"], style="rank"),
    Case("RANK is beyond WORLD_SIZE", variable("RANK", "2", 1), "environment/invalid-variable", ["host1"], style="rank"),
    Case("RANK is negative", variable("RANK", "-1", 1), "environment/invalid-variable", ["host1"], style="rank"),
    Case("PET_NNODES is no number", variable("PET_NNODES", "two", 1), "environment/invalid-variable", ["host1"], style="pet"),
    Case("an agent's store without an agent", variable("TORCHELASTIC_USE_AGENT_STORE", "True", 0, 1), "environment/agent-store-hijack", ["host0", "host1"], style="rank", curable=True),
    Case("two rank 0", variable("RANK", "0", 1), "environment/duplicate-rank", ["host1"], style="rank"),
    Case("two rank 1 of 3", variable("RANK", "1", 2), "environment/duplicate-rank", ["host1", "host2"], blame="one-of", style="rank", hosts=3),
    Case("two node rank 0", flag("--node-rank", "0", 1), "environment/duplicate-node-rank", ["host1"]),
    Case("two node rank 1 of 3", flag("--node-rank", "1", 2), "environment/duplicate-node-rank", ["host1", "host2"], blame="one-of", hosts=3),
    Case("--nnodes 2 and 3", flag("--nnodes", "3", 1), "environment/world-size-mismatch", ["host0", "host1"], blame="one-of"),
    Case("--nnodes 3 and 2", flag("--nnodes", "3", 0), "environment/world-size-mismatch", ["host0", "host1"], blame="one-of"),
    Case("--nnodes 3, 3 and 2", flag("--nnodes", "2", 1), "environment/world-size-mismatch", ["host1"], hosts=3),
    Case("WORLD_SIZE 2 and 3", variable("WORLD_SIZE", "3", 1), "environment/world-size-mismatch", ["host0", "host1"], blame="one-of", style="rank"),
    Case("the ports differ", flag("--master-port", "29501", 1), "environment/master-mismatch", ["host1"], curable=True, live=False),
    Case("an endpoint is left over on node 1", variable("PET_RDZV_ENDPOINT", "host1:29500", 1), "environment/master-mismatch", ["host1"], curable=True, live=False),
    Case("the addresses differ", flag("--master-addr", "host1", 1), "environment/master-mismatch", ["host1"], curable=True, live=False),
    Case("the master's name means nobody on node 1", name_at(1, "host0", NOBODY), "network/master-resolves-differently", ["host1"], curable=True, live=False),
    Case("the master's name means node 1 on node 1", name_at(1, "host0", "10.77.0.11"), "network/master-resolves-differently", ["host1"], curable=True, live=False),
    Case("torch missing on node 1", torch_removed(1), "environment/torch-missing", ["host1"], by_hand=torch_installed),
    Case("torch missing on node 0", torch_removed(0), "environment/torch-missing", ["host0"], by_hand=torch_installed),
    Case("a broken torch on PYTHONPATH of node 1", on_pythonpath("torch", NO_CUDA, 1), "environment/torch-shadowed", ["host1"], options=(1, 2)),
    Case("random.py in the working folder of both", in_working_folder("random.py", "print('mine')\n", 0, 1), "environment/torch-shadowed", ["host0", "host1"]),
    Case("torch.py in the working folder of node 1", in_working_folder("torch.py", "", 1), "environment/torch-shadowed", ["host1"]),
    Case("the working folder of node 1 is deleted", working_folder_deleted(1), "environment/torch-broken", ["host1"], by_hand=existing_folder),
    Case("another distdoctor on node 2", other_version("0.0.9", 2), "environment/version-mismatch", ["host2"], "warn", hosts=3, by_hand=usual_installation),
]  # fmt: skip

NETWORK = [
    Case("the master's name is unknown on node 1", name_removed(1, "host0"), "network/master-unresolvable", ["host1"], curable=True),
    Case("the master's name is unknown everywhere", together(name_removed(0, "gpu0"), name_removed(1, "gpu0")), "network/master-unresolvable", ["host0", "host1"], curable=True, master="gpu0"),
    Case("the master is nobody's address", flag("--master-addr", NOBODY, 0, 1), "network/master-not-node0", ["host0", "host1"], curable=True),
    Case("the master is node 1's address", flag("--master-addr", "host1", 0, 1), "network/master-not-node0", ["host0", "host1"], curable=True),
    Case("the master is localhost", flag("--master-addr", "localhost", 0, 1), "network/master-not-node0", ["host0", "host1"], curable=True),
    Case("the master's port is reset", master_port(0, "reject with tcp reset"), "network/port-refused", ["host0"], curable=True, live=False),
    Case("the master's port is dropped", master_port(0, "drop"), "network/port-filtered", ["host0"]),
    Case("the master's port is dropped, under torchrun ranks", master_port(0, "drop"), "network/port-filtered", ["host0"], style="rank"),
    Case("the master's port is dropped by iptables", iptables(0, "-A INPUT ! -i lo -p tcp --dport 29500 -j DROP"), "network/port-filtered", ["host0"]),
    Case("the master's port is dropped for itself too", nft(0, "tcp dport 29500 drop"), "network/port-filtered", ["host0"]),
    Case("the master's port is dropped on the way out", nft(1, "tcp dport 29500 drop", hook="output"), "network/port-filtered", ["host1"]),
    Case("node 0 drops everything of node 1", nft(0, "ip saddr {host1} drop"), "network/port-filtered", ["host0"], curable=True, live=False),
    Case("node 0 drops the port for node 2 of 3", nft(0, "ip saddr {host2} tcp dport 29500 drop"), "network/port-filtered", ["host0"], hosts=3),
    Case("the master's port is dropped, IPv6", master_port(0, "drop"), "network/port-filtered", ["host0"], subnets=["fd77::/64"]),
    Case("the master's port is rejected", master_port(0, "reject"), "network/port-rejected", ["host0"]),
    Case("the master's port is prohibited", master_port(0, "reject with icmpx type admin-prohibited"), "network/port-rejected", ["host0"]),
    Case("the master's port is rejected by iptables", iptables(0, "-A INPUT ! -i lo -p tcp --dport 29500 -j REJECT"), "network/port-rejected", ["host0"]),
    Case("a silent listener holds the port", port_held(0, SILENT_LISTENER), "network/port-in-use", ["host0"]),
    Case("another user's process holds the port", port_held(0, SILENT_LISTENER, uid=NOBODY_UID), "network/port-in-use", ["host0"]),
    Case("an outgoing connection holds the port", port_held(0, OUTGOING), "network/port-in-use", ["host0"]),
    Case("a web server holds the port", port_held(0, HTTP_SERVER), "network/foreign-service", ["host0"]),
    Case("another job's store holds the port", port_held(0, FOREIGN_STORE), "store/foreign-store", ["host0"]),
]  # fmt: skip

MESH = [
    Case("only MASTER_PORT is open on the lower address", only_master_port(0), "mesh/peer-ports-blocked", ["host0"]),
    Case("only MASTER_PORT is open on the higher address", only_master_port(1), "mesh/peer-ports-blocked", ["host1"], "warn"),
    Case("only MASTER_PORT is open on both", together(only_master_port(0), only_master_port(1)), "mesh/peer-ports-blocked", ["host0", "host1"]),
    Case("only MASTER_PORT is open by iptables, lower address", only_master_port_iptables(0), "mesh/peer-ports-blocked", ["host0"]),
    Case("only MASTER_PORT is open by iptables, higher address", only_master_port_iptables(1), "mesh/peer-ports-blocked", ["host1"], "warn"),
    Case("only MASTER_PORT is open, torchrun", only_master_port(0), "mesh/peer-ports-blocked", ["host0"], style="torchrun"),
    Case("ephemeral ports are reset", nft(0, *FROM_OTHERS, "tcp dport 32768-60999 reject with tcp reset"), "mesh/peer-ports-blocked", ["host0"]),
    Case("one pair of 3 is cut in one direction", nft(1, *FROM_OTHERS, "ip saddr {host2} drop"), "mesh/one-way", ["host1"], hosts=3),
]  # fmt: skip

STORE = [
    Case("node 1 is not started", not_started(1), NODES_MISSING, ["node1"], curable=True, by_hand=start_all),
    Case("node 0 is not started", not_started(0), NODES_MISSING, ["host0"], curable=True, by_hand=start_all),
    Case("node 2 of 3 is not started", not_started(2), NODES_MISSING, ["node2"], hosts=3, curable=True, by_hand=start_all),
    Case("node 1 is not started, ranks unset", not_started(1), NODES_MISSING, ["node1"], style="unset", curable=True, by_hand=start_all),
    Case("rank 1 is not started", not_started(1), NODES_MISSING, ["node1"], style="rank", curable=True, by_hand=start_all),
]  # fmt: skip

CASES = [*GLOO, *ENVIRONMENT, *NETWORK, *MESH, *STORE]
