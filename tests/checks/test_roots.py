"""Faults and the roots they lead to: over all nodes' facts exactly one, and from each node alone no other.

Every row is a cluster as it would be after the fault, with the check, the nodes, the severity and the blame expected.
"""

# ruff: noqa: E501 - a row is a line, however long

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.facts import (
    AddressChoice,
    Answer,
    Bind,
    Interface,
    Link,
    MeshFacts,
    NodeFacts,
    PortHolder,
    Resolution,
    StageFacts,
)
from distdoctor.plan import PlanProblem
from tests.checks import rows_host, rows_net
from tests.checks.row import Facts, Row
from tests.facts_builder import (
    PORT,
    UNREAD,
    alone,
    blocking,
    failing,
    healthy,
    judged,
    loopback_name,
    met,
    node,
    outside,
    rank_node,
    waited_in_vain,
    with_gpus,
    with_host,
    with_master,
    with_meeting,
    with_network,
    with_plan,
)

NODES_MISSING = "store/nodes-missing"
LOOPBACK = "gloo/loopback-address"
BOTH = ("host0", "host1")


# -- environment ----------------------------------------------------------------------------------------------------


def problem(variable: str, value: str | None, why: str, suggestion: str | None = None) -> tuple[PlanProblem, ...]:
    return (PlanProblem(variable, value, why, suggestion),)


def per_rank(count: int = 2, *changes: tuple[int, dict[str, object]]) -> list[NodeFacts]:
    ones = [rank_node(f"host{r}", r, world=count) for r in range(count)]
    for number, change in changes:
        ones[number] = with_plan(ones[number], **change)
    return ones


def no_master_addr() -> Facts:
    a, b = per_rank()
    b = with_plan(b, master_addr=None, problems=problem("MASTER_ADDR", None, "not set"))
    b = with_meeting(with_network(alone(b), master=None, contact=None), joined=False, ours=None, ended=True)
    return waited_in_vain(a), b


def no_rank() -> Facts:
    a, b = per_rank(2, (1, {"rank": None, "problems": problem("RANK", None, "not set")}))
    return met(a, replace(b, ranks=(replace(b.ranks[0], rank=None),)))


def url_master() -> Facts:
    a, b = per_rank(2, (1, {"problems": problem("MASTER_ADDR", "tcp://host0:29500", "is a URL", "host0")}))
    return met(a, b)


def broken_port() -> Facts:
    a, b = per_rank(2, (1, {"problems": problem("MASTER_PORT", "abc", "is not a whole number")}))
    a = with_plan(a, master_port=29700)
    return waited_in_vain(a), outside(b)


def broken_nnodes() -> Facts:
    a, b = node("host0", 0, declared=True), node("host1", 1)
    problems = (PlanProblem("PET_NNODES", "two", "not a number of nodes"), *problem("PET_NODE_RANK", "1", "0 to 0"))
    b = with_plan(
        b, nnodes=1, node_rank=0, problems=problems, sources={"nnodes": "PET_NNODES", "node_rank": "PET_NODE_RANK"}
    )
    return met(a, b)


def rank_beyond() -> Facts:
    a, b = per_rank(
        2, (1, {"rank": None, "problems": problem("RANK", "2", "RANK must be below WORLD_SIZE, which is 2")})
    )
    return met(a, replace(b, ranks=(replace(b.ranks[0], rank=None),)))


def two_rank_0() -> Facts:
    a, b = per_rank(2, (1, {"rank": 0}))
    return met(a, replace(b, ranks=(replace(b.ranks[0], rank=0),)))


def two_rank_1() -> Facts:
    a, b, c = per_rank(3, (2, {"rank": 1}))
    return met(a, b, replace(c, ranks=(replace(c.ranks[0], rank=1),)))


def two_node_0() -> Facts:
    a, b = node("host0", 0, declared=True), node("host1", 1, declared=True)
    b = with_network(with_plan(b, node_rank=0), bind=Bind(True, PORT))
    return met(a, b)


def two_node_0_apart() -> Facts:
    """The second node 0 came first, hosted a store that nobody looks for, and left again before the first one came."""
    a, b = node("host0", 0, declared=True), node("host1", 1, declared=True)
    b = replace(outside(with_plan(b, node_rank=0)), started_at=1.0)
    return waited_in_vain(a), with_network(b, bind=Bind(True, PORT))


def two_node_1() -> Facts:
    a, b, c = (node(f"host{n}", n, of=3, declared=True) for n in range(3))
    return met(a, b, with_plan(c, node_rank=1))


def nnodes(*values: int) -> Facts:
    return met(*(with_plan(node(f"host{n}", n, of=v), nnodes=v) for n, v in enumerate(values)))


def world_sizes() -> Facts:
    return met(*per_rank(2, (1, {"world_size": 3})))


def other_port() -> Facts:
    a, b = healthy(2)
    return waited_in_vain(a), outside(with_plan(b, master_port=29501, sources={"master_port": "--master-port"}))


def other_address() -> Facts:
    a, b = healthy(2, declared=True)
    return waited_in_vain(a), outside(with_master(b, "host1", own=True, resolved=["10.77.0.11"]))


def nobodys_address_on_one() -> Facts:
    a, b = healthy(2)
    return waited_in_vain(a), outside(with_master(b, "host0", resolved=["10.77.0.99"]), "unreachable", errno=113)


def own_addresses() -> Facts:
    """Each names itself, no node rank given: two stores, and nobody comes to either."""
    a, b = healthy(2)
    b = with_meeting(waited_in_vain(with_master(b, "10.77.0.11", own=True)), hosted=True)
    return waited_in_vain(a), with_network(b, bind=Bind(True, PORT))


def no_torch(which: int) -> Facts:
    a, b = healthy(2, declared=True)
    if which == 1:
        b = replace(b, identity=replace(b.identity, torch=None, torch_error="No module named 'torch'"))
        return (failing(a, "store", "Wait timeout"), replace(b, ranks=()))
    a = replace(a, identity=replace(a.identity, torch=None, torch_error="No module named 'torch'"))
    a = with_meeting(with_network(alone(a), bind=None), joined=False, ours=None, hosted=False, ended=True)
    return a, outside(b)


def other_version() -> Facts:
    a, b, c = healthy(3)
    return a, b, replace(c, identity=replace(c.identity, distdoctor="0.0.9"))


ENVIRONMENT = [
    Row("MASTER_ADDR not set", no_master_addr, "environment/missing-variable", ("host1",)),
    Row("RANK not set", no_rank, "environment/missing-variable", ("host1",), together=True),
    Row("MASTER_ADDR is a URL", url_master, "environment/invalid-variable", ("host1",), together=True),
    Row("MASTER_PORT is no number", broken_port, "environment/invalid-variable", ("host1",)),
    Row("PET_NNODES is no number", broken_nnodes, "environment/invalid-variable", ("host1",), together=True),
    Row("RANK beyond WORLD_SIZE", rank_beyond, "environment/invalid-variable", ("host1",), together=True),
    Row("two rank 0", two_rank_0, "environment/duplicate-rank", ("host1",), together=True),
    Row("two rank 1", two_rank_1, "environment/duplicate-rank", ("host1", "host2"), blame="one-of", together=True),
    Row("two node 0", two_node_0, "environment/duplicate-node-rank", ("host1",), together=True),
    Row("two node 0 that never met", two_node_0_apart, "environment/duplicate-node-rank", ("host1",), together=True),
    Row("two node 1", two_node_1, "environment/duplicate-node-rank", ("host1", "host2"), blame="one-of", together=True),
    Row("nnodes 2 and 3", lambda: nnodes(2, 3), "environment/world-size-mismatch", BOTH, blame="one-of", together=True),
    Row("nnodes 3 and 2", lambda: nnodes(3, 2), "environment/world-size-mismatch", BOTH, blame="one-of", together=True),
    Row("nnodes 3, 2 and 3", lambda: nnodes(3, 2, 3), "environment/world-size-mismatch", ("host1",), together=True),
    Row("WORLD_SIZE 2 and 3", world_sizes, "environment/world-size-mismatch", BOTH, blame="one-of", together=True),
    Row("another port", other_port, "environment/master-mismatch", ("host1",)),
    Row("another address", other_address, "environment/master-mismatch", ("host1",)),
    Row("another meaning", nobodys_address_on_one, "environment/master-mismatch", ("host1",)),
    Row("each names itself", own_addresses, "environment/master-mismatch", BOTH, blame="one-of"),
    Row("torch missing on node 1", lambda: no_torch(1), "environment/torch-missing", ("host1",), together=True),
    Row("torch missing on node 0", lambda: no_torch(0), "environment/torch-missing", ("host0",)),
    Row("another version", other_version, "environment/version-mismatch", ("host2",), "warn", together=True),
]


# -- gloo and host --------------------------------------------------------------------------------------------------

REFUSED = "connectFullMesh failed with [connect [127.0.1.1]:1234: Connection refused]"


def loopback_both() -> Facts:
    a, b = healthy(2)
    return failing(loopback_name(a), "gloo", REFUSED), failing(loopback_name(b), "gloo", "ended after 3 s", killed=True)


def loopback_one(network: str = "10.77.0") -> Facts:
    master = f"{network}.10"
    a, b = node("host0", 0, ip=master, master=master), node("host1", 1, ip=f"{network}.11", master=master)
    return met(a, loopback_name(b))


def loopback_variable() -> Facts:
    return tuple(with_host(one, gloo=AddressChoice("127.0.0.1", "lo", "variable", "lo")) for one in healthy(2))


def unresolvable_both() -> Facts:
    facts = []
    for one in healthy(2):
        own = Resolution(one.identity.hostname, error="Name or service not known")
        facts.append(with_host(one, own_name=own, gloo=AddressChoice("127.0.0.1", "lo", "fallback")))
    return tuple(failing(one, "gloo", REFUSED.replace("127.0.1.1", "127.0.0.1")) for one in facts)


def nccl_only(one: NodeFacts) -> NodeFacts:
    """--backend nccl, and gloo was not probed."""
    one = with_plan(one, backend="nccl")
    return replace(one, ranks=tuple(replace(r, gpu=None, stages=()) for r in one.ranks), stages=one.stages[:2])


def nccl_loopback() -> Facts:
    return tuple(nccl_only(loopback_name(one)) for one in healthy(2))


def nccl_loopback_skipped() -> Facts:
    return tuple(replace(one, stages=(*one.stages, StageFacts("gloo", "skipped"))) for one in nccl_loopback())


def nccl_gloo_probed() -> Facts:
    """--backend nccl; gloo is probed all the same."""
    facts = (failing(loopback_name(one), "gloo", REFUSED) for one in healthy(2))
    return tuple(with_gpus(with_plan(one, backend="nccl"), 2) for one in facts)


def nccl_unresolvable() -> Facts:
    a, b = healthy(2)
    return nccl_only(a), nccl_only(with_host(b, own_name=Resolution("host1", error="unknown", timed_out=True)))


def not_found(value: str = "ib0") -> Facts:
    a, b = healthy(2)
    b = with_host(b, gloo=AddressChoice(None, None, "not-found", value))
    return failing(a, "gloo", "ended", killed=True), failing(b, "gloo", f"Unable to find address for: {value}")


def not_found_and_loopback_name() -> Facts:
    a, b = not_found()
    return a, with_host(b, own_name=Resolution("host1", ("127.0.1.1",)))


def second_network(at: str) -> Facts:
    """host1's gloo takes eth1, to which host0 has no way."""
    a, b = healthy(2)
    assert b.host is not None
    b = with_host(b, interfaces=(*b.host.interfaces, Interface("eth1", (at,), (24,))))
    b = with_host(b, gloo=AddressChoice(at, "eth1", "variable", "eth1"))
    bad = Link(b.key, at, 40001, ("gloo",), "unreachable", 113)
    return replace(a, mesh=MeshFacts(good=1, bad=(bad,), tried=(b.key,))), b


def docker0() -> Facts:
    facts = []
    for one in healthy(2):
        assert one.host is not None
        one = with_host(one, interfaces=(*one.host.interfaces, Interface("docker0", ("172.17.0.1",), (16,))))
        facts.append(with_host(one, gloo=AddressChoice("172.17.0.1", "docker0", "variable", "docker0")))
    a, b = facts
    a = replace(a, mesh=MeshFacts(1, (Link(b.key, "172.17.0.1", 40001, ("gloo",), "wrong-node"),)))
    b = replace(b, mesh=MeshFacts(1, (Link(a.key, "172.17.0.1", 40000, ("gloo",), "refused", 111),)))
    return tuple(failing(one, "gloo", "connect [172.17.0.1]:1: Connection refused") for one in (a, b))


GLOO = [
    Row("127.0.1.1 on both", loopback_both, LOOPBACK, BOTH, together=True),
    Row("127.0.1.1 on one, 10.x", loopback_one, LOOPBACK, ("host1",), "warn", together=True),
    Row("127.0.1.1 on one, 192.168", lambda: loopback_one("192.168.7"), LOOPBACK, ("host1",), together=True),
    Row("GLOO_SOCKET_IFNAME=lo", loopback_variable, LOOPBACK, BOTH, together=True),
    Row("own name unknown", unresolvable_both, LOOPBACK, BOTH, together=True),
    Row("nccl only", nccl_loopback, "host/hostname-loopback", BOTH, "warn", together=True),
    Row("nccl only, gloo skipped", nccl_loopback_skipped, "host/hostname-loopback", BOTH, "warn", together=True),
    Row("nccl, gloo probed", nccl_gloo_probed, LOOPBACK, BOTH, "warn", together=True),
    Row("nccl only, unknown", nccl_unresolvable, "host/hostname-unresolvable", ("host1",), "warn", together=True),
    Row("no such interface", not_found, "gloo/interface-not-found", ("host1",), together=True),
    Row(
        "no such interface, 127.0.1.1",
        not_found_and_loopback_name,
        "gloo/interface-not-found",
        ("host1",),
        together=True,
    ),
    Row(
        "second network", lambda: second_network("10.55.1.11"), "gloo/interface-unreachable", ("host1",), together=True
    ),
    Row(
        "second network that dials",
        lambda: second_network("10.99.1.11"),
        "gloo/interface-unreachable",
        ("host1",),
        "warn",
        together=True,
    ),
    Row("docker0 on both", docker0, "network/wrong-interface", BOTH, together=True),
]


# -- network --------------------------------------------------------------------------------------------------------


def unknown_on_one() -> Facts:
    a, b = healthy(2)
    a = with_master(a, "host0", own=True, resolved=["10.77.0.10"])
    return waited_in_vain(a), outside(with_master(b, "host0", own=None, resolved=[]), None)


def unknown_everywhere() -> Facts:
    a, b = (outside(with_master(one, "gpu0", own=None, resolved=[]), None) for one in healthy(2, declared=True))
    return with_network(a, bind=Bind(True, PORT)), b


def nobodys_address() -> Facts:
    a, b = (outside(with_master(one, "10.77.0.200"), "unreachable", errno=113) for one in healthy(2, declared=True))
    return with_network(a, bind=Bind(True, PORT)), b


def node_1s_address() -> Facts:
    a, b = healthy(2, declared=True)
    a = with_network(outside(with_master(a, "host1", resolved=["10.77.0.11"])), bind=Bind(True, PORT))
    return a, outside(with_master(b, "host1", own=True, resolved=["10.77.0.11"]))


def nobodys_address_undeclared() -> Facts:
    a, b = (outside(with_master(one, "10.77.0.200"), "unreachable", errno=113) for one in healthy(2))
    return a, b


def localhost(declared: bool) -> Facts:
    a, b = healthy(2, declared=declared)
    a, b = (
        with_network(with_master(one, "localhost", own=True, resolved=["127.0.0.1"]), primary=None) for one in (a, b)
    )
    if declared:
        return waited_in_vain(a), with_network(outside(b), primary=None)
    return waited_in_vain(a), with_meeting(waited_in_vain(b), hosted=True)


def localhost_on_one() -> Facts:
    a, b = healthy(2, declared=True)
    b = with_network(with_master(b, "localhost", own=True, resolved=["127.0.0.1"]), primary=None)
    return waited_in_vain(a), outside(b)


def shut(
    outcome: str, *, control: str | None = None, rules: tuple[str, ...] = (), at: int = 0, hook: str = "input"
) -> Facts:
    """host1 does not get to the store of host0; ``rules`` of host ``at`` are why."""
    a, b = healthy(2)
    a, b = waited_in_vain(a), outside(b, outcome, control=control)
    if rules and at == 0:
        a = with_network(a, firewall=blocking(*rules, hook=hook))
    elif rules:
        b = with_network(b, firewall=blocking(*rules, hook=hook))
    return a, b


def shut_unread(*which: int) -> Facts:
    facts = list(shut("no-answer", control="refused"))
    for number in which:
        facts[number] = with_network(facts[number], firewall=UNREAD)
    return tuple(facts)


def shut_third() -> Facts:
    a, b, c = healthy(3)
    a = with_network(a, firewall=blocking("ip saddr 10.77.0.12 tcp dport 29500 drop"))
    return (
        *met(a, b, outside(c, "no-answer", control="refused"), expected=3)[:2],
        outside(c, "no-answer", control="refused"),
    )


def shut_all_of_three() -> Facts:
    a, b, c = (with_network(one, firewall=UNREAD) for one in healthy(3))
    return waited_in_vain(a, 3), outside(b, "no-answer", control="refused"), outside(c, "no-answer", control="refused")


def no_way() -> Facts:
    a, b = healthy(2)
    return waited_in_vain(a), outside(b, "unreachable", errno=101)


def host_down() -> Facts:
    a, b = healthy(2)
    return waited_in_vain(a), outside(b, "unreachable", errno=113)


def held(answer: Answer | None, *holders: PortHolder, errno: int = 98) -> Facts:
    a, b = healthy(2, declared=True)
    bind = Bind(False, PORT, errno, "address already in use", holders, answer, 29501)
    a = with_network(outside(a, None), bind=bind, master_is_own=True)
    b = with_network(outside(b, "open" if errno == 98 else "refused"), answer=answer)
    if answer is not None and answer.kind == "tcpstore":
        a = with_network(with_meeting(a, ours=False), bind=None, answer=answer)
        b = with_meeting(b, ours=False)
    return a, b


SSHD = PortHolder("0.0.0.0", 77, "sshd", "root")
DROP = ("tcp dport 29500 drop",)
NETWORK = [
    Row("name unknown on one", unknown_on_one, "network/master-unresolvable", ("host1",)),
    Row("name unknown everywhere", unknown_everywhere, "network/master-unresolvable", BOTH),
    Row("nobody's address", nobodys_address, "network/master-not-node0", BOTH),
    Row("nobody's address, no ranks declared", nobodys_address_undeclared, "network/master-not-node0", BOTH),
    Row("node 1's address", node_1s_address, "network/master-not-node0", BOTH),
    Row("localhost", lambda: localhost(True), "network/master-not-node0", BOTH),
    Row("localhost, no ranks declared", lambda: localhost(False), "network/master-not-node0", BOTH),
    Row("localhost on one", localhost_on_one, "network/master-not-node0", ("host1",)),
    Row("reset", lambda: shut("refused", rules=("tcp dport 29500 reject with tcp reset",)), "network/port-refused", ("host0",)),
    Row("dropped", lambda: shut("no-answer", control="refused", rules=DROP), "network/port-filtered", ("host0",)),
    Row("dropped, host silent", lambda: shut("no-answer", control="no-answer", rules=("ip saddr 10.77.0.11 drop",)),
        "network/port-filtered", ("host0",)),
    Row("dropped on the way out", lambda: shut("no-answer", control="refused", rules=DROP, at=1, hook="output"),
        "network/port-filtered", ("host1",)),
    Row("replies dropped", lambda: shut("no-answer", control="refused", rules=("tcp sport 29500 drop",), hook="output"),
        "network/port-filtered", ("host0",)),
    Row("rules unread on both", lambda: shut_unread(0, 1), "network/port-filtered", ("host1", "host0"), blame="one-of"),
    Row("rules unread on node 0", lambda: shut_unread(0), "network/port-filtered", ("host0",)),
    Row("no rules at all", shut_unread, "network/port-filtered", ("host1", "host0"), blame="one-of"),
    Row("dropped for one of two", shut_third, "network/port-filtered", ("host0",)),
    Row("dropped for all of two", shut_all_of_three, "network/port-filtered", ("host0",)),
    Row("rejected", lambda: shut("rejected", rules=("tcp dport 29500 reject",)), "network/port-rejected", ("host0",)),
    Row("no route", no_way, "network/no-route", ("host1",)),
    Row("host down", host_down, "network/master-unreachable", ("host1", "host0"), blame="one-of"),
    Row("port in use, silent", lambda: held(Answer("silent"), SSHD), "network/port-in-use", ("host0",)),
    Row("port in use, unseen", lambda: held(None, PortHolder("0.0.0.0")), "network/port-in-use", ("host0",)),
    Row("privileged port", lambda: held(None, errno=13), "network/port-not-bindable", ("host0",)),
    Row("foreign service", lambda: held(Answer("foreign", sample="SSH-2.0"), SSHD), "network/foreign-service", ("host0",)),
    Row("closed at once", lambda: held(Answer("closed")), "network/foreign-service", ("host0",)),
    Row("foreign store", lambda: held(Answer("tcpstore", "2.5+")), "store/foreign-store", ("host0",)),
]  # fmt: skip


# -- mesh, store, gpu and the rest ----------------------------------------------------------------------------------


def cut(*pairs: tuple[int, int], of: int = 2, rules: tuple[int, ...] = (), outcome: str = "no-answer") -> Facts:
    """Ephemeral ports blocked from one host to another, for each pair; the hosts in ``rules`` say so."""
    facts = list(healthy(of))
    for number in rules:
        facts[number] = with_network(facts[number], firewall=blocking(policy="drop"))
    for number, one in enumerate(facts):
        bad = tuple(
            Link(facts[to].key, f"10.77.0.{10 + to}", 40000 + to, ("gloo", "primary"), outcome)  # type: ignore[arg-type]
            for source, to in pairs
            if source == number
        )
        facts[number] = replace(one, mesh=MeshFacts(good=of - 1 - len(bad), bad=bad))
    return tuple(facts)


def cut_and_failed() -> Facts:
    return tuple(
        failing(one, "gloo", "ended after 20 s: it did not return", killed=True) for one in cut((1, 0), rules=(0,))
    )


def cut_nccl() -> Facts:
    return tuple(with_gpus(one, 2) for one in cut((0, 1), rules=(1,)))


def missing(number: int, of: int = 2) -> Facts:
    facts = [node(f"host{n}", n, of=of) for n in range(of)]
    del facts[number]
    if number:
        return met(*facts, expected=of)
    return tuple(with_network(outside(one), master_name="host0") for one in facts)


def missing_rank() -> Facts:
    return met(rank_node("host0", 0, world=3, per_node=None), rank_node("host1", 1, world=3, per_node=None), expected=3)


def late() -> Facts:
    """Node 0 came when the other had given up."""
    a, b = healthy(2)
    a, b = replace(waited_in_vain(a), started_at=5000.0), replace(outside(b), started_at=1000.0)
    return a, b


def lost() -> Facts:
    a, b = healthy(2)
    return with_meeting(failing(a, "gloo", "Connection closed by peer"), lost=(b.key,)), b


def host_lost() -> Facts:
    _, b = healthy(2)
    return (with_network(with_meeting(b, host_lost=True, ended=True), master_name="host0"),)


def barrier() -> Facts:
    a, b = healthy(2)
    text = "[Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 8000 ms"
    return failing(a, "barrier", text), failing(b, "barrier", "ended", killed=True)


MESH_AND_UP = [
    Row("lower address blocked", lambda: cut((1, 0), rules=(0,)), "mesh/peer-ports-blocked", ("host0",), together=True),
    Row("higher address blocked", lambda: cut((0, 1), rules=(1,)), "mesh/peer-ports-blocked", ("host1",), "warn", together=True),
    Row("blocked, gloo failed", cut_and_failed, "mesh/peer-ports-blocked", ("host0",), together=True),
    Row("blocked for nccl", cut_nccl, "mesh/peer-ports-blocked", ("host1",), together=True),
    Row("both blocked", lambda: cut((0, 1), (1, 0), rules=(0, 1)), "mesh/peer-ports-blocked", BOTH, together=True),
    Row("blocked, no rules", lambda: cut((1, 0)), "mesh/peer-ports-blocked", BOTH, blame="one-of", together=True),
    Row("reset", lambda: cut((1, 0), rules=(0,), outcome="reset"), "mesh/peer-ports-blocked", ("host0",), together=True),
    Row("one pair of 3", lambda: cut((1, 2), (2, 1), of=3, rules=(1,)), "mesh/peer-ports-blocked", ("host1",), together=True),
    Row("one of 3, no rules", lambda: cut((0, 1), (2, 1), of=3), "mesh/peer-ports-blocked", ("host1",), together=True),
    Row("node 1 missing", lambda: missing(1), NODES_MISSING, ("node1",)),
    Row("node 2 of 3 missing", lambda: missing(2, 3), NODES_MISSING, ("node2",), together=True),
    Row("node 0 missing", lambda: missing(0), NODES_MISSING, ("host0",)),
    Row("rank 2 missing", missing_rank, NODES_MISSING, ("node2",), together=True),
    Row("node 0 late", late, NODES_MISSING, ("host1",)),
    Row("node lost", lost, "store/node-lost", ("host1",), together=True),
    Row("store lost", host_lost, "store/node-lost", ("host0",)),
    Row("barrier", barrier, "barrier/rank-missing", ("host1",), together=True),
    Row("gloo", lambda: (failing(healthy(2)[0], "gloo", "some error"), healthy(2)[1]), "gloo/init-failed", ("host0",),
        together=True),
    Row("store", lambda: (failing(healthy(2)[0], "store", "some error"), healthy(2)[1]), "store/failed", ("host0",),
        together=True),
    Row("wrong result", lambda: (failing(healthy(2)[0], "collective", "wrong results: all_reduce", wrong=["all_reduce"]),
        healthy(2)[1]), "collective/wrong-result", ("host0",), together=True),
    Row("collective", lambda: (failing(healthy(2)[0], "collective", "Read error"), healthy(2)[1]), "collective/failed",
        ("host0",), together=True),
    Row("nccl, planned", lambda: tuple(failing(with_gpus(one, 2), "nccl", "NCCL error") for one in healthy(2)),
        "nccl/init-failed", BOTH, together=True),
    Row("nccl, not planned", lambda: tuple(failing(with_plan(with_gpus(one, 2), backend="gloo"), "nccl", "NCCL error")
        for one in healthy(2)), "nccl/init-failed", BOTH, "warn", together=True),
    Row("fewer GPUs", lambda: met(*(with_gpus(node(f"host{n}", n, nproc=8), 8 - n) for n in range(2))),
        "gpu/fewer-than-ranks", ("host1",), together=True),
    Row("no GPU for nccl", lambda: tuple(with_plan(one, backend="nccl") for one in healthy(2)), "gpu/fewer-than-ranks",
        BOTH, together=True),
]  # fmt: skip


def shared() -> Facts:
    """Two ranks of two that see two devices, started once per rank, both with the mask 1."""
    ones = [rank_node("host0", r, local=r, per_node=2) for r in range(2)]
    second = with_gpus(ones[0], 2).ranks[0].gpu
    assert second is not None
    first, mine = (
        replace(second, cuda_visible_devices="0,1"),
        replace(second, visible=second.visible[1:], cuda_visible_devices="1"),
    )
    mine2 = replace(mine, cuda_visible_devices="1")
    third = rank_node("host0", 2, local=2, per_node=3)
    ones = [rank_node("host0", r, world=3, local=r, per_node=3) for r in range(2)] + [third]
    gpus = (replace(first, visible=(*first.visible, replace(first.visible[0], index=2, uuid="GPU-2"))), mine, mine2)
    return met(*(
        replace(with_plan(one, world_size=3, nproc_per_node=3), ranks=(replace(one.ranks[0], gpu=gpu),))
        for one, gpu in zip(ones, gpus, strict=True)
    ))  # fmt: skip


ROWS = [
    *ENVIRONMENT,
    *GLOO,
    *NETWORK,
    *MESH_AND_UP,
    *rows_host.ROWS,
    *rows_net.ROWS,
    Row("shared", shared, "gpu/shared-device", ("host0",), together=True),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.root}: {row.name}")
def test_all_facts_together_give_exactly_this_root(row: Row) -> None:
    result = judged(*row.facts())
    assert [(f.id, f.nodes, f.severity, f.blame) for f in result.roots] == [
        (row.root, row.nodes, row.severity, row.blame)
    ]
    assert all(f.because_of == result.roots[0].id for f in result.findings[1:])


@pytest.mark.parametrize("row", [r for r in ROWS if not r.together], ids=lambda row: f"{row.root}: {row.name}")
def test_each_node_alone_names_it_or_that_others_did_not_come(row: Row) -> None:
    for one in row.facts():
        result = judged(one)
        assert {f.id for f in result.roots} <= {row.root, NODES_MISSING}, one.identity.hostname
        # A node that met the others leaves the roll call to node 0.
        guest = one.meeting is not None and one.meeting.joined and not one.meeting.hosted and not one.meeting.host_lost
        assert len(result.roots) == (0 if guest else 1), one.identity.hostname


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.root}: {row.name}")
def test_the_root_says_what_was_seen_and_what_to_do(row: Row) -> None:
    """Evidence and a fix, on nodes that the cluster has; the first option is not empty."""
    root = judged(*row.facts()).roots[0]
    assert (
        root.evidence and root.fixes and root.title and root.summary.endswith((".", "error", "closed by peer", "text"))
    ), root
    assert {fix.option for fix in root.fixes} == set(range(1, max(fix.option for fix in root.fixes) + 1))
    assert all("None" not in line for line in (root.summary, *root.evidence, *(fix.text for fix in root.fixes)))


def test_every_check_is_the_root_of_a_row() -> None:
    from tests.facts_builder import CHECKS

    assert {row.root for row in ROWS} == {check.id for check in CHECKS}
