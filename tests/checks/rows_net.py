"""Rows about names, interfaces, links, the store and ranks that are stopped or gone."""

# ruff: noqa: E501 - a row is a line, however long

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from distdoctor.model.facts import (
    AddressChoice,
    Answer,
    Bind,
    Contact,
    Firewall,
    FirewallChain,
    Interface,
    Link,
    LinkRate,
    MeshFacts,
    NodeFacts,
    RankStage,
    Resolution,
    Route,
)
from tests.checks.row import Facts, Row
from tests.facts_builder import (
    PORT,
    UNREAD,
    blocking,
    failing,
    healthy,
    met,
    node,
    outside,
    waited_in_vain,
    with_gpus,
    with_host,
    with_master,
    with_meeting,
    with_network,
    with_plan,
)

BOTH = ("host0", "host1")
FAST = 9e8
OPEN = ("gloo", "primary")


# -- names ------------------------------------------------------------------------------------------------------------


def late_name() -> Facts:
    a, b = healthy(2)
    a = with_master(a, "job-0", own=True, resolved=["10.77.0.10"])
    return a, with_network(with_master(b, "job-0", resolved=["10.77.0.10"]), resolved_after=6.2)


def named(one: NodeFacts, at: str, own: bool | None = False) -> NodeFacts:
    return with_master(one, "host0", own=own, resolved=[at])


def other_host() -> Facts:
    """host1's /etc/hosts has an old address of host0."""
    a, b = healthy(2, declared=True)
    return waited_in_vain(named(a, "10.77.0.10", True)), outside(named(b, "10.77.0.200"), "unreachable", errno=113)


def itself_undeclared() -> Facts:
    """host1 takes the master's name for its own and hosts a store, too; two of three met at host0."""
    a, b, c = (named(one, "10.77.0.10", number == 0) for number, one in enumerate(healthy(3)))
    b = with_network(named(b, "10.77.0.11", True), bind=Bind(True, PORT))
    a = with_meeting(waited_in_vain(a, 3), arrived=(a.key, c.key))
    return a, with_meeting(waited_in_vain(b, 3), hosted=True), c


def on_every_node(master: str, *, met_there: bool = False) -> Facts:
    """The master's address is one that each node has (a service's, on kube-ipvs0); host1 reaches itself, unless it is
    forwarded."""
    at, facts = "10.96.0.77", []
    for number, one in enumerate(healthy(2, declared=True)):
        assert one.host is not None
        vip = Interface("kube-ipvs0", (at,), (32,), mtu=1500)
        one = with_host(one, interfaces=(*one.host.interfaces, vip))
        one = with_network(with_master(one, master, own=True, resolved=[at]), contact=Contact(at, PORT, "open"))
        facts.append(with_network(one, primary=AddressChoice(at, "kube-ipvs0", "route")) if number == 0 else one)
    a, b = facts
    return (a, b) if met_there else (waited_in_vain(a), outside(b))


# -- interfaces -------------------------------------------------------------------------------------------------------


def picks(one: NodeFacts, interface: str, address: str, reason: str = "hostname") -> NodeFacts:
    """The facts of a node whose gloo picks another interface, which it has besides."""
    assert one.host is not None
    one = with_host(one, interfaces=(*one.host.interfaces, Interface(interface, (address,), (24,), mtu=1500)))
    value = interface if reason == "variable" else None
    return with_host(one, gloo=AddressChoice(address, interface, reason, value))


def missed(one: NodeFacts, *targets: tuple[NodeFacts, str, str]) -> NodeFacts:
    """The facts of a node that cannot reach (target, address, outcome) where gloo is, though it reaches the target."""
    bad = tuple(Link(t.key, at, 40001, ("gloo",), outcome) for t, at, outcome in targets)  # type: ignore[arg-type]
    return replace(one, mesh=MeshFacts(good=1, bad=bad))


def docker0_on_one() -> Facts:
    """host1 alone picks docker0, which host0 has too. 172.17 is above 10.77: host1 connects, and it works."""
    a, b = healthy(2)
    assert a.host is not None
    a = with_host(a, interfaces=(*a.host.interfaces, Interface("docker0", ("172.17.0.1",), (16,))))
    b = picks(b, "docker0", "172.17.0.1")
    return missed(a, (b, "172.17.0.1", "wrong-node")), b


def vpn_on_one(at: str) -> Facts:
    a, b = healthy(2)
    b = picks(b, "tun0", at)
    return missed(a, (b, at, "no-answer")), b


def nccl_docker0() -> Facts:
    facts = []
    for one in (with_gpus(one, 2) for one in healthy(2)):
        assert one.host is not None
        one = with_host(one, interfaces=(Interface("docker0", ("172.17.0.1",), (16,)), *one.host.interfaces))
        facts.append(with_host(one, nccl=AddressChoice("172.17.0.1", "docker0", "variable", "docker")))
    return tuple(facts)


def dual_stack(one: NodeFacts, number: int, first: int = 4) -> NodeFacts:
    """The facts of a node with both families, whose own name gives the family ``first`` first."""
    four, six = f"10.77.0.{10 + number}", f"fd77::{10 + number}"
    name = one.identity.hostname
    interfaces = (
        Interface("lo", ("127.0.0.1", "::1"), (8, 128), loopback=True),
        Interface("eth0", (four, six), (24, 64), mtu=1500),
    )
    order = (four, six) if first == 4 else (six, four)
    return with_host(
        one, interfaces=interfaces, own_name=Resolution(name, order), gloo=AddressChoice(order[0], "eth0", "hostname")
    )


def families(*first: int) -> Facts:
    text = "[enforce fail at address.cc:50] ss1.ss_family == ss2.ss_family. 10 vs 2"
    ones = (dual_stack(one, n, first[n]) for n, one in enumerate(healthy(len(first))))
    return tuple(failing(one, "gloo", text) for one in ones)


def six_only() -> Facts:
    """host1's interface has an IPv6 address only, and host0 has no way there."""
    a, b = (dual_stack(one, n, 4 + 2 * n) for n, one in enumerate(healthy(2)))
    bad = Link(b.key, "fd77::11", 40001, ("gloo",), "unreachable", 101)
    return replace(a, mesh=MeshFacts(good=1, bad=(bad,))), b


def dead_six(outcome: str, seconds: float) -> Facts:
    """host1 tries node 0's IPv6 address first, in vain."""
    a, b = (named(dual_stack(one, n), "10.77.0.10", n == 0) for n, one in enumerate(healthy(2)))
    b = with_master(b, "host0", resolved=["fd77::10", "10.77.0.10"])
    b = with_network(
        b,
        contact=Contact("10.77.0.10", PORT, "open"),
        passed_over=(Contact("fd77::10", PORT, outcome, seconds=seconds),),  # type: ignore[arg-type]
    )
    return a, b


def dead_six_and_failed() -> Facts:
    a, b = dead_six("no-answer", 3.3)
    return failing(a, "store", "ended", killed=True), failing(
        b, "store", "ended after 17 s: it did not return", killed=True
    )


# -- routes -----------------------------------------------------------------------------------------------------------


def no_route() -> Facts:
    a, b = healthy(2)
    b = with_network(outside(b, "error", errno=22), route=Route("10.77.0.10", error="Network is unreachable"))
    return waited_in_vain(a), b


def no_route_to_a_peer() -> Facts:
    facts = list(healthy(3))
    bad = Link(facts[2].key, "10.77.0.12", 40002, OPEN, "unreachable", 101)
    facts[1] = replace(facts[1], mesh=MeshFacts(good=1, bad=(bad,)))
    back = Link(facts[1].key, "10.77.0.11", 40001, OPEN, "no-answer")
    facts[2] = replace(facts[2], mesh=MeshFacts(good=1, bad=(back,)))
    return tuple(failing(one, "gloo", "connect [10.77.0.12]:1: Network is unreachable") for one in facts)


# -- links ------------------------------------------------------------------------------------------------------------

Pairs = Iterable[tuple[int, int]]


def cut(
    pairs: Pairs, of: int, *, ruled: tuple[int, ...] = (), failed: bool = True, outcome: str = "no-answer"
) -> Facts:
    """These directions blocked; the nodes of ``ruled`` have a filter that drops all but MASTER_PORT."""
    facts = list(healthy(of))
    chosen = set(pairs)
    for number, one in enumerate(facts):
        targets = [to for source, to in sorted(chosen) if source == number]
        bad = tuple(
            Link(facts[to].key, f"10.77.0.{10 + to}", 40000 + to, OPEN, outcome)  # type: ignore[arg-type]
            for to in targets
        )
        one = replace(one, mesh=MeshFacts(good=of - 1 - len(bad), bad=bad))
        if number in ruled:
            one = with_network(one, firewall=blocking("meta l4proto tcp drop"))
        facts[number] = failing(one, "gloo", "ended after 20 s: it did not return", killed=True) if failed else one
    return tuple(facts)


def across(*groups: tuple[int, ...]) -> set[tuple[int, int]]:
    """All pairs between the groups, in both directions."""
    return {(a, b) for one in groups for other in groups if one != other for a in one for b in other}


def into(target: int, of: int) -> set[tuple[int, int]]:
    return {(source, target) for source in range(of) if source != target}


def out_of(source: int, of: int) -> set[tuple[int, int]]:
    return {(b, a) for a, b in into(source, of)}


def stalled(pairs: Pairs, of: int, mtus: tuple[int, ...] = (), rule: tuple[int, str] | None = None) -> Facts:
    """Large payloads stall in these directions."""
    facts = list(cut(pairs, of, failed=False, outcome="stalled"))
    for number, one in enumerate(facts):
        assert one.mesh is not None and one.host is not None
        one = replace(one, mesh=replace(one.mesh, bad=tuple(replace(k, payload=4000) for k in one.mesh.bad)))
        if mtus:
            assert one.host is not None
            changed = tuple(replace(i, mtu=mtus[number]) if i.name == "eth0" else i for i in one.host.interfaces)
            one = with_host(one, interfaces=changed)
            one = replace(one, ranks=healthy(of)[number].ranks)
        if rule is not None and rule[0] == number:
            one = with_network(one, firewall=blocking(rule[1]))
        facts[number] = failing(one, "collective", "Timed out waiting 15000ms for recv operation to complete")
    return tuple(facts)


def measured(of: int, slow: Pairs = (), lossy: Pairs = (), *, busy: float = 0.2, speed: float = 6e5) -> Facts:
    """Links with their rates: ``slow`` at ``speed``, ``lossy`` with a tenth of the small segments sent again."""
    facts = healthy(of)
    slow, lossy = set(slow), set(lossy)
    found = []
    for number, one in enumerate(facts):
        rates = tuple(
            LinkRate(
                facts[to].key,
                speed if (number, to) in slow else FAST,
                delivery_rate=1.2 * (speed if (number, to) in slow else FAST),
                retransmitted=9 if (number, to) in lossy else 0,
                segments=90,
                rtt=0.0001,
            )
            for to in range(of)
            if to != number
        )
        speeds = sorted(rate.bytes_per_second or 0.0 for rate in rates)
        middle = len(speeds) // 2
        median = speeds[middle] if len(speeds) % 2 else (speeds[middle] + speeds[middle - 1]) / 2
        mesh = MeshFacts(good=of - 1, rates=rates, rate_median=median, rates_measured=of - 1, busy=busy)
        found.append(replace(one, mesh=mesh))
    return tuple(found)


def lossy_by_rule() -> Facts:
    a, b = measured(2, lossy=[(0, 1), (1, 0)])
    return a, with_network(b, firewall=blocking("numgen random mod 100 < 20 drop"))


# -- store and ranks --------------------------------------------------------------------------------------------------


def silent() -> Facts:
    a, b = healthy(2)
    return waited_in_vain(a), with_network(outside(b, "open"), answer=Answer("silent"))


def slow_import() -> Facts:
    """Node 0's store was there only when the other had given up, because importing torch took so long."""
    a, b = healthy(2)
    a, b = replace(waited_in_vain(a), started_at=1000.0), replace(outside(b), started_at=1000.0)
    return with_network(a, bind=Bind(True, PORT, after=70.0)), b


def libuv() -> Facts:
    text = "DistStoreError: use_libuv was requested but PyTorch was build without libuv support, run with USE_LIBUV=0"
    a, b = healthy(2)
    return failing(a, "store", "ended after 3 s: another rank failed", killed=True), failing(b, "store", text)


def libuv_on_node_0() -> Facts:
    a, b = healthy(2, declared=True)
    text = "use_libuv was requested but PyTorch was build without libuv support, run with USE_LIBUV=0 to disable it."
    return with_network(outside(a, None), bind=Bind(False, PORT, 0, text), master_is_own=True), outside(b)


def ended(stage: str, number: int, *, of: int = 2, died: str | None = None, state: str | None = None) -> Facts:
    """The first rank of one node is stopped, or gone; the others report what follows from that, or are ended."""
    facts = []
    for index, one in enumerate(healthy(of)):
        if index == 0 and stage == "barrier" and number:
            text = f"RuntimeError: [Rank 0]: Ranks {2 * number} failed to pass monitoredBarrier in 8000 ms"
            one = failing(one, stage, text, missing=[2 * number])
        elif index == 0:
            one = failing(one, stage, "Read error [10.77.0.11]:40123: Connection reset by peer")
        else:
            one = failing(one, stage, "ended after 4.0 s: another rank failed", killed=True, state="S")
        facts.append(one)
    first, *rest = facts[number].ranks
    entry = RankStage(
        stage, "failed", 4.0, "ended after 4.0 s: the process is stopped", {"killed": True, "state": state}
    )
    if died is not None:
        entry = RankStage(stage, "error", 0.2, died, {"died": True})
    first = replace(first, pid=4242, stages=(*first.stages[:-1], entry))
    facts[number] = replace(facts[number], ranks=(first, *rest))
    return tuple(facts)


KILLED = "the process was ended by signal 9"
THREE = ("host0", "host1", "host2")
DIFFERENT = "network/master-resolves-differently"
WRONG, MISMATCH = "network/wrong-interface", "network/ipv6-mismatch"
BLOCKED, ONE_WAY, ALONE, PARTS = "mesh/peer-ports-blocked", "mesh/one-way", "mesh/node-isolated", "mesh/partition"
HOLE, SLOW, LOSS = "mesh/mtu-blackhole", "mesh/slow-link", "mesh/packet-loss"

ROWS = [
    Row("late name", late_name, "network/dns-not-ready", ("host1",), "warn", together=True),
    Row("another host on one", other_host, DIFFERENT, ("host1",)),
    Row("itself on one of three", itself_undeclared, DIFFERENT, ("host1",)),
    Row("a name for an address that each node has", lambda: on_every_node("train-master"), DIFFERENT, ("host1",)),
    Row("an address that each node has", lambda: on_every_node("10.96.0.77"), DIFFERENT, ("host1",)),
    Row("docker0 on one", docker0_on_one, WRONG, ("host1",), "warn", together=True),
    Row("tun0 that is dialled", lambda: vpn_on_one("10.8.0.6"), WRONG, ("host1",), together=True),
    Row("tun0 that dials", lambda: vpn_on_one("100.64.0.6"), WRONG, ("host1",), "warn", together=True),
    Row("docker0 for nccl", nccl_docker0, WRONG, BOTH, together=True),
    Row("IPv6 on one of two", lambda: families(4, 6), MISMATCH, ("host1",), together=True),
    Row("IPv6 on two of three, IPv4 on one", lambda: families(4, 6, 6), MISMATCH, ("host0",), together=True),
    Row("IPv6 without a way", six_only, MISMATCH, ("host1",), together=True),
    Row("IPv6 dropped, IPv4 works", dead_six_and_failed, MISMATCH, ("host1",), together=True),
    Row("IPv6 unreachable, IPv4 works", lambda: dead_six("unreachable", 3.1), MISMATCH, ("host1",), "warn", together=True),
    Row("no route, by the route", no_route, "network/no-route", ("host1",)),
    Row("no route to a peer", no_route_to_a_peer, "network/no-route", ("host1",), together=True),
    Row("one direction of 3", lambda: cut([(2, 1)], 3, ruled=(1,)), ONE_WAY, ("host1",), together=True),
    Row("one direction of 3, harmless to gloo", lambda: cut([(1, 2)], 3, ruled=(2,), failed=False), ONE_WAY, ("host2",), "warn", together=True),
    Row("one direction of 3, no rules", lambda: cut([(2, 1)], 3), ONE_WAY, ("host1", "host2"), blame="one-of", together=True),
    Row("reaches nobody", lambda: cut(out_of(2, 4), 4), ONE_WAY, ("host2",), together=True),
    Row("accepts nothing", lambda: cut(into(1, 4), 4), BLOCKED, ("host1",), together=True),
    Row("two accept nothing", lambda: cut(into(1, 5) | into(3, 5), 5), BLOCKED, ("host1", "host3"), together=True),
    Row("nobody accepts anything", lambda: cut(across((0,), (1,), (2,)), 3, ruled=(0, 1, 2)), BLOCKED, THREE, together=True),
    Row("a pair of 4", lambda: cut(across((1,), (2,)), 4), BLOCKED, ("host1", "host2"), blame="one-of", together=True),
    Row("a node and two of its peers", lambda: cut(across((1,), (2,)) | across((1,), (3,)), 5), BLOCKED, ("host1",), together=True),
    Row("isolated of 3", lambda: cut(across((0, 1), (2,)), 3), ALONE, ("host2",), together=True),
    Row("isolated of 3, with rules", lambda: cut(across((0, 1), (2,)), 3, ruled=(2,)), ALONE, ("host2",), together=True),
    Row("two isolated of 4", lambda: cut(across((0, 1), (2,), (3,)), 4), ALONE, ("host2", "host3"), together=True),
    Row("node 0 isolated", lambda: cut(across((0,), (1, 2)), 3), ALONE, ("host0",), together=True),
    Row("three and two", lambda: cut(across((0, 1, 2), (3, 4)), 5), PARTS, ("host3", "host4"), together=True),
    Row("two and two", lambda: cut(across((0, 1), (2, 3)), 4), PARTS, ("host0", "host1", "host2", "host3"), blame="one-of", together=True),
    Row("two and two, with rules", lambda: cut(across((0, 1), (2, 3)), 4, ruled=(2, 3)), PARTS, ("host2", "host3"), together=True),
    Row("large packets, by rule", lambda: stalled([(0, 1)], 2, rule=(1, "meta length > 1294 drop")), HOLE, ("host1",), together=True),
    Row("large packets, jumbo", lambda: stalled([(0, 1), (1, 0)], 3, (9000, 9000, 1500)), HOLE, BOTH, together=True),
    Row("large packets, no rule", lambda: stalled([(1, 0)], 2, (1500, 1500)), HOLE, BOTH, blame="one-of", together=True),
    Row("large packets to one of 3", lambda: stalled([(0, 2), (1, 2)], 3), HOLE, ("host2",), together=True),
    Row("slow, two nodes", lambda: measured(2, slow=[(1, 0)]), SLOW, BOTH, "warn", "one-of", together=True),
    Row("slow, one node's way out", lambda: measured(3, slow=out_of(1, 3)), SLOW, ("host1",), "warn", together=True),
    Row("slow, one node", lambda: measured(4, slow=into(3, 4) | out_of(3, 4)), SLOW, ("host3",), "warn", together=True),
    Row("slow, one pair", lambda: measured(4, slow=[(1, 2), (2, 1)]), SLOW, ("host1", "host2"), "warn", "one-of", together=True),
    Row("slow on a busy machine", lambda: measured(3, slow=out_of(2, 3), busy=1.0), SLOW, ("host2",), "warn", together=True),
    Row("loss, two nodes", lambda: measured(2, lossy=[(0, 1), (1, 0)]), LOSS, BOTH, "warn", "one-of", together=True),
    Row("loss, by rule", lossy_by_rule, LOSS, ("host1",), "warn", together=True),
    Row("loss, one node", lambda: measured(3, lossy=into(2, 3) | out_of(2, 3)), LOSS, ("host2",), "warn", together=True),
    Row("node 0 slow to host", slow_import, "store/nodes-missing", ("host1",)),
    Row("silent listener", silent, "store/silent", ("host0",)),
    Row("no libuv", libuv, "store/libuv-missing", ("host1",), together=True),
    Row("no libuv on node 0", libuv_on_node_0, "store/libuv-missing", ("host0",)),
    *(
        Row(f"stopped in {stage}", lambda stage=stage: ended(stage, 1, state="T"), "barrier/rank-stopped", ("host1",), together=True)  # type: ignore[misc]
        for stage in ("store", "gloo", "barrier", "collective")
    ),
    Row("rank 0 stopped", lambda: ended("barrier", 0, state="T"), "barrier/rank-stopped", ("host0",), together=True),
    Row("traced", lambda: ended("gloo", 2, of=3, state="t"), "barrier/rank-stopped", ("host2",), together=True),
    *(
        Row(f"killed in {stage}", lambda stage=stage: ended(stage, 1, died=KILLED), "barrier/rank-missing", ("host1",), together=True)  # type: ignore[misc]
        for stage in ("store", "gloo", "barrier", "collective")
    ),
]  # fmt: skip


# -- healthy ----------------------------------------------------------------------------------------------------------


def vpn_everywhere() -> Facts:
    """All nodes are in one VPN and gloo uses it."""
    facts = []
    for number, one in enumerate(healthy(3)):
        facts.append(picks(one, "wg0", f"10.99.0.{10 + number}"))
    return tuple(facts)


def routed_containers() -> Facts:
    """Containers at 172.17 addresses of their own that are routed, each beside a docker0 of the host's."""
    facts = []
    for number in range(2):
        one = node(f"host{number}", number, ip=f"172.17.{number + 1}.2", master="172.17.1.2")
        assert one.host is not None
        docker = Interface("docker0", ("172.17.0.1",), (16,))
        facts.append(with_host(one, interfaces=(*one.host.interfaces, docker)))
    return met(*facts)


def jumbo() -> Facts:
    facts = []
    for one in healthy(3):
        assert one.host is not None
        facts.append(with_host(one, interfaces=tuple(replace(i, mtu=9000) for i in one.host.interfaces)))
    return tuple(facts)


def receiver_limited() -> Facts:
    """A receiver that does not keep up: its host is loaded, its link is not slow."""
    facts = []
    for one in measured(3, slow=into(2, 3), busy=1.0):
        assert one.mesh is not None
        rates = tuple(
            replace(r, receiver_limited=0.9) if (r.bytes_per_second or 0) < FAST else r for r in one.mesh.rates
        )
        facts.append(replace(one, mesh=replace(one.mesh, rates=rates)))
    return tuple(facts)


def a_few_retransmissions() -> Facts:
    facts = []
    for one in measured(3):
        assert one.mesh is not None
        rates = tuple(replace(r, retransmitted=2) for r in one.mesh.rates)
        facts.append(replace(one, mesh=replace(one.mesh, rates=rates)))
    return tuple(facts)


def filtered_by_length() -> Facts:
    """A rule about lengths that no packet of the job meets."""
    chain = FirewallChain("nft", "inet", "filter", "input", "input", "accept", ("meta length > 9000 drop",))
    return tuple(with_network(one, firewall=Firewall(True, chains=(chain,))) for one in healthy(2))


def own_name_on_loopback() -> Facts:
    a, b = healthy(2)
    return with_master(a, "host0", own=True, resolved=["127.0.1.1"]), named(b, "10.77.0.10")


def one_name_two_interfaces() -> Facts:
    """The master's name is another interface of node 0 for one of the nodes."""
    a, b, c = healthy(3)
    assert a.host is not None
    a = with_host(a, interfaces=(*a.host.interfaces, Interface("eth1", ("192.168.5.10",), (24,))))
    return named(a, "10.77.0.10", True), named(b, "10.77.0.10"), named(c, "192.168.5.10")


def uneven_speeds(*factors: float) -> Facts:
    """Links of different speeds, none of them far below the others."""
    facts = []
    for one, factor in zip(measured(len(factors)), factors, strict=True):
        assert one.mesh is not None
        rates = tuple(replace(r, bytes_per_second=FAST * factor, delivery_rate=None) for r in one.mesh.rates)
        facts.append(replace(one, mesh=replace(one.mesh, rates=rates, rate_median=FAST * factor)))
    return tuple(facts)


def nccl_without_gloo_at_docker() -> Facts:
    """gloo would take docker0, but the job makes no gloo group and none was tried."""
    facts: list[Any] = []
    for one in healthy(2):
        one = picks(with_plan(with_gpus(one, 2), backend="nccl"), "docker0", "172.17.0.1")
        facts.append(replace(one, stages=tuple(s for s in one.stages if s.stage != "gloo")))
    return tuple(facts)


HEALTHY: dict[str, Facts] = {
    "an address that each node has, forwarded to node 0": on_every_node("train-master", met_there=True),
    "the same, without a name": on_every_node("10.96.0.77", met_there=True),
    "name found after a second": tuple(with_network(one, resolved_after=1.2) for one in healthy(2)),
    "VPN that all nodes are in": vpn_everywhere(),
    "containers with routed 172.17 addresses": routed_containers(),
    "jumbo frames everywhere": jumbo(),
    "dual stack, IPv4 first": tuple(dual_stack(one, n, 4) for n, one in enumerate(healthy(3))),
    "dual stack, IPv6 first": tuple(dual_stack(one, n, 6) for n, one in enumerate(healthy(3))),
    "IPv6 refused at once": dead_six("refused", 0.001),
    "no IPv6 at all": dead_six("unreachable", 0.0),
    "measured": measured(4),
    "measured, busy": measured(3, busy=1.0),
    "slower on a busy machine": measured(3, slow=out_of(2, 3), busy=1.0, speed=9e7),
    "two nodes, 100 Mbit/s": measured(2, slow=[(0, 1), (1, 0)], speed=1.1e7),
    "receiver that does not keep up": receiver_limited(),
    "a few retransmissions": a_few_retransmissions(),
    "10 and 40 Gbit/s": uneven_speeds(1.0, 0.5, 0.25),
    "rule about lengths": filtered_by_length(),
    "own name on loopback": own_name_on_loopback(),
    "one name, two interfaces": one_name_two_interfaces(),
    "nccl beside docker0": nccl_without_gloo_at_docker(),
    "rules not readable, links good": tuple(with_network(one, firewall=UNREAD) for one in measured(3)),
}
