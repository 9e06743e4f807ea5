"""Healthy clusters, however odd: no check has anything to say of them."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import AddressChoice, Contact, HostsLine, Interface, NodeFacts, Resolution
from tests.facts_builder import (
    UNREAD,
    alone,
    blocking,
    healthy,
    loopback_name,
    met,
    node,
    rank_node,
    with_gpus,
    with_host,
    with_master,
    with_meeting,
    with_network,
    with_plan,
)


def one_node() -> tuple[NodeFacts, ...]:
    one = node("host0", 0, of=1, ip="127.0.0.1", master="127.0.0.1")
    return met(one)


def on_one_host(count: int, hostname_address: str = "127.0.1.1") -> tuple[NodeFacts, ...]:
    """Several nodes on one machine over 127.0.0.1, as torchrun twice in two terminals."""
    nodes = []
    for number in range(count):
        one = node("host0", number, of=count, ip="127.0.0.1", master="127.0.0.1", netns="n", pid=100 + number)
        one = with_network(one, primary=None)
        nodes.append(loopback_name(one, hostname_address))
    return met(*nodes)


def once_per_rank(count: int, per_node: int) -> tuple[NodeFacts, ...]:
    """As torchrun -m distdoctor check: one process per rank."""
    ones = [
        rank_node(f"host{r // per_node}", r, world=count, local=r % per_node, per_node=per_node) for r in range(count)
    ]
    return met(*ones)


def headless() -> tuple[NodeFacts, ...]:
    """MASTER_ADDR means every node; each tries its own address first, which is refused, and then node 0's."""
    every = [f"10.77.0.{10 + number}" for number in range(3)]
    nodes = []
    for number, one in enumerate(healthy(3)):
        one = with_master(one, "job", own=True, resolved=[every[number], *(a for a in every if a != every[number])])
        nodes.append(with_network(one, contact=Contact("10.77.0.10", 29500, "open")))
    return met(*nodes)


def named_master() -> tuple[NodeFacts, ...]:
    """host0 calls itself host0 and that is 127.0.1.1 there; the store listens on every address. gloo is told eth0."""
    a, b = healthy(2)
    a = with_master(a, "host0", own=True, resolved=["127.0.1.1"])
    b = with_master(b, "host0", own=False, resolved=["10.77.0.10"])
    return told_eth0(a), told_eth0(b)


def told_eth0(facts: NodeFacts) -> NodeFacts:
    assert facts.host is not None and facts.network is not None and facts.network.primary is not None
    ip = facts.network.primary.address
    facts = loopback_name(facts)
    lines = (HostsLine(2, f"127.0.1.1 {facts.identity.hostname}"),)
    facts = with_host(facts, gloo=AddressChoice(ip, "eth0", "variable", "eth0"), hosts_lines=lines)
    return replace(facts, variables={"GLOO_SOCKET_IFNAME": "eth0"})


def docker_beside() -> tuple[NodeFacts, ...]:
    docker = Interface("docker0", ("172.17.0.1",), (16,), mtu=1500)
    facts = []
    for one in healthy(2):
        assert one.host is not None
        facts.append(with_host(one, interfaces=(docker, *one.host.interfaces)))
    return tuple(facts)


def ipv6() -> tuple[NodeFacts, ...]:
    return met(*(node(f"host{n}", n, ip=f"fd00::{10 + n}", master="fd00::10") for n in range(2)))


def other_spellings() -> tuple[NodeFacts, ...]:
    """Names, addresses and a second interface of node 0 all lead to node 0; node 0 itself says localhost."""
    a, b, c = healthy(3)
    assert a.host is not None
    a = with_host(a, interfaces=(*a.host.interfaces, Interface("eth1", ("192.168.5.10",), (24,))))
    a = with_master(a, "localhost", own=True, resolved=["127.0.0.1", "::1"])
    b = with_master(b, "host0.cluster", own=False, resolved=["10.77.0.10"])
    c = with_master(c, "192.168.5.10", own=False)
    return a, b, c


def firewalled() -> tuple[NodeFacts, ...]:
    """Firewalls that let the job's traffic through: there are rules, but every link works."""
    return tuple(with_network(one, firewall=blocking("tcp dport 23 drop", policy="drop")) for one in healthy(2))


def uneven() -> tuple[NodeFacts, ...]:
    """Different numbers of ranks per node are legal."""
    a, b = node("host0", 0, nproc=2), node("host1", 1, nproc=1)
    return met(a, replace(b, ranks=(replace(b.ranks[0], rank=2),)))


def duplicate_hostnames() -> tuple[NodeFacts, ...]:
    a, b = node("host", 0), node("host", 1, netns="another")
    return met(a, b)


def second_on_one_host_failed_to_bind() -> tuple[NodeFacts, ...]:
    """Both own MASTER_ADDR; the one that came second found the doctor's store and joined it."""
    a, b = on_one_host(2)
    assert b.network is not None
    return a, with_network(b, bind=None, master_is_own=True)


def eight_gpus() -> tuple[NodeFacts, ...]:
    return met(*(with_gpus(node(f"host{n}", n, nproc=8), 8) for n in range(2)))


def gpu_masks() -> tuple[NodeFacts, ...]:
    """SLURM with one device per task: each rank sees one, another one each."""
    ones = []
    for one in once_per_rank(4, 2):
        local = one.plan.local_rank or 0
        shown = with_gpus(one, 2).ranks[0].gpu
        assert shown is not None
        device = replace(shown, visible=(replace(shown.visible[local], index=0),), cuda_visible_devices=str(local))
        ones.append(replace(one, ranks=(replace(one.ranks[0], gpu=device),)))
    return tuple(ones)


def cpu_job_with_many_ranks() -> tuple[NodeFacts, ...]:
    return met(node("host0", 0, of=1, nproc=16, ip="127.0.0.1"))


def hosted_by_torchrun() -> tuple[NodeFacts, ...]:
    """torchrun's agent hosts the store; no rank does."""
    facts = [with_plan(one, agent_store=True) for one in once_per_rank(4, 2)]
    return tuple(with_network(one, bind=None) for one in facts)


def until_network() -> tuple[NodeFacts, ...]:
    """--until network: nobody meets, nothing needs torch."""
    ones = []
    for one in healthy(2):
        one = replace(alone(one), meeting=None, identity=replace(one.identity, torch=None))
        ones.append(with_network(one, bind=None, contact=None))
    return tuple(ones)


def waiting() -> tuple[NodeFacts, ...]:
    """Node 0 waits for the other, and neither wait is over."""
    first = with_meeting(alone(node("host0", 0)), arrived=("host0 1000 net-host0",), expected=2, ended=False)
    return (first,)


def first_of_one_host() -> tuple[NodeFacts, ...]:
    """The first of several nodes on one Debian machine over 127.0.0.1: the others may yet come."""
    one = loopback_name(node("host0", 0, ip="127.0.0.1", master="127.0.0.1"))
    one = with_network(one, primary=AddressChoice("192.0.2.2", "eth0", "default route"))
    return (with_meeting(alone(one), arrived=(one.key,), expected=2, ended=False),)


def dotted() -> tuple[NodeFacts, ...]:
    return met(node("host0.lab.example", 0), node("host1.lab.example", 1))


CLUSTERS: dict[str, tuple[NodeFacts, ...]] = {
    "one node": one_node(),
    "two nodes": healthy(2),
    "three nodes": healthy(3),
    "five nodes, declared ranks": healthy(5, declared=True),
    "several nodes on one host": on_one_host(3),
    "several nodes on one host, name unresolvable": tuple(
        with_host(one, own_name=Resolution("host0", error="Name or service not known")) for one in on_one_host(2)
    ),
    "once per rank, one host": once_per_rank(4, 4),
    "once per rank, two hosts": once_per_rank(4, 2),
    "once per rank, LOCAL_WORLD_SIZE not set": met(*(rank_node(f"host{r}", r, per_node=None) for r in range(2))),
    "a name that means every node": headless(),
    "host name on loopback, GLOO_SOCKET_IFNAME right": named_master(),
    "docker0 beside eth0": docker_beside(),
    "IPv6": ipv6(),
    "other spellings of one master": other_spellings(),
    "firewalls that do no harm": firewalled(),
    "rules not readable": tuple(with_network(one, firewall=UNREAD) for one in healthy(2)),
    "uneven ranks": uneven(),
    "one host name twice": duplicate_hostnames(),
    "second on one host joined": second_on_one_host_failed_to_bind(),
    "GPUs": eight_gpus(),
    "many ranks without a GPU": cpu_job_with_many_ranks(),
    "agent store": hosted_by_torchrun(),
    "until network": until_network(),
    "still waiting": waiting(),
    "first of several on one host": first_of_one_host(),
    "dots in host names": dotted(),
}
