"""host/rendezvous-name: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distdoctor.model.facts import ConnectOutcome, Contact, Interface, Link, MeshFacts, Resolution, TableRoute
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, judged, met, node, with_host, with_identity, with_network, with_plan

CHECK = "host/rendezvous-name"


def one_node(
    announced: Resolution | None = None, reached: bool | None = None, torch: str = "2.13.0", **plan: Any
) -> Facts:
    """One node alone, started as the bare ``distdoctor check``, whose own name has no address unless told."""
    one = with_identity(with_plan(node("host0", 0, of=1), nnodes=1), torch=torch)
    sources = {
        "nnodes": "default",
        "nproc_per_node": "default",
        "master_addr": "default",
        "master_port": "any free port",
    }
    one = with_plan(one, **{"master_addr": "127.0.0.1", "master_port": 0, "sources": sources, **plan})
    none = Resolution("host0", error="Temporary failure in name resolution")
    return met(with_host(one, own_name=none, announced=announced or none, announced_reached=reached))


def stale_own_name(reached: bool) -> Facts:
    return one_node(Resolution("host0", ("10.9.9.9",)), reached)


def standalone(torch: str = "2.4.0", given: str = "--standalone") -> Facts:
    sources = {"master_addr": given, "master_port": "any free port"}
    return one_node(torch=torch, rdzv_backend="c10d", sources=sources)


def two_nodes_c10d(*announced: Resolution) -> Facts:
    facts = tuple(with_host(one, announced=name) for one, name in zip(healthy(2), announced, strict=True))
    return tuple(with_plan(one, rdzv_backend="c10d") for one in facts)


def nameless_c10d(**plan: Any) -> Facts:
    """host1's own name has no address; gloo is told its interface, and host0 announces the store."""
    none = Resolution("host1", error="Name or service not known")
    a, b = two_nodes_c10d(Resolution("host0", ("10.77.0.10",)), none)
    a, b = (with_plan(one, **{"master_addr": "host0", **plan}) for one in (a, b))
    return met(a, with_host(b, own_name=none))


def looked_up(*found: str, own: str = "host0.site") -> Facts:
    """c10d by an address: host1 finds these addresses for the name under which host0 announces the ranks' store."""
    error = None if found else "Name or service not known"
    a, b = two_nodes_c10d(Resolution(own, ("10.77.0.10",)), Resolution("node1", ("10.77.0.11",)))
    return met(a, with_network(b, rendezvous_name=Resolution(own, found, error)))


SECOND = "10.99.0.10"


def second_card(*networks: str, rejected: bool = False) -> Facts:
    """host0 is to be called by the address of its second card; host1 has routes to these networks."""
    a, b = two_nodes_c10d(Resolution(SECOND, (SECOND,)), Resolution("host1", ("10.77.0.11",)))
    assert a.host is not None
    cards = (*a.host.interfaces, Interface("eth1", (SECOND,), (24,), mtu=1500))
    a = with_host(with_plan(a, local_addr=SECOND, sources={"local_addr": "--local-addr"}), interfaces=cards)
    routes = tuple(TableRoute(network, None, "eth0", rejected and i > 0) for i, network in enumerate(networks))
    return met(a, with_network(b, rendezvous_name=Resolution(SECOND, (SECOND,)), routes=routes))


def template_address() -> Facts:
    """PET_LOCAL_ADDR is the same address on both, which is none of theirs."""
    announced = Resolution("10.88.0.5", ("10.88.0.5",))
    facts = two_nodes_c10d(announced, announced)
    named = {"local_addr": "10.88.0.5", "sources": {"local_addr": "PET_LOCAL_ADDR"}}
    return met(*(with_host(with_plan(one, **named), announced_reached=False) for one in facts))


def tried(outcome: ConnectOutcome, at: str = SECOND, *, lost: bool = False) -> Facts:
    """The same with a default route: host1 tried that card, or what it takes for it; ``lost``: nothing of host0."""
    a, b = second_card("10.77.0.0/24", "0.0.0.0/0")
    contact = Contact(at, 40000, outcome, None if outcome == "open" else 113, 3.0)
    b = with_network(b, rendezvous_name=Resolution(SECOND, (at,)), rendezvous_contact=contact)
    bad = (Link(a.key, "10.77.0.10", 40000, ("gloo", "primary"), "no-answer"),) if lost else ()
    return met(a, replace(b, mesh=MeshFacts(good=0 if lost else 1, bad=bad)))


def called_loopback(given: str = "127.0.0.1") -> Facts:
    """--local-addr of host0 means every node itself."""
    a, b = looked_up("127.0.0.1", own=given)
    return met(with_plan(a, local_addr=given, sources={"local_addr": "--local-addr"}), b)


ROWS = [
    Row("--local-addr is a loopback address", called_loopback, ("host0",), together=True),
    Row("another address in PET_LOCAL_ADDR", template_address, ("host0",), together=True),
    Row("the announced name is unknown on the other", looked_up, ("host1",), together=True),
    Row("it is localhost", lambda: looked_up("127.0.0.1", own="localhost"), ("host0",), together=True),
    Row("it means the other itself there", lambda: looked_up("127.0.0.1", own="host0"), ("host1",), together=True),
    Row("own name unknown to itself, c10d, not the announcing node", nameless_c10d, ("host1",), together=True),
    Row("own name unknown, one node", one_node, ("host0",), together=True),
    Row("own name unknown, standalone, older torch", standalone, ("host0",), together=True),
    Row("own name stale, one node", lambda: stale_own_name(False), ("host0",), together=True),
    Row(
        "own name unknown, c10d",
        lambda: two_nodes_c10d(Resolution("host0", error="none"), Resolution("host1", ("10.77.0.11",))),
        ("host0",),
        together=True,
    ),
]

ROWS += [
    Row(
        "a second card to which the other has no route", lambda: second_card("10.77.0.0/24"), ("host0",), together=True
    ),
    Row(
        "a second card to which the other refuses to send",
        lambda: second_card("10.77.0.0/24", "10.99.0.0/16", rejected=True),
        ("host0",),
        together=True,
    ),
]

ROWS += [
    Row("a second card that does not answer", lambda: tried("no-answer"), ("host0",), together=True),
    Row("a second card that nobody finds", lambda: tried("unreachable"), ("host0",), together=True),
    Row("the name means a third host on the other", lambda: tried("refused", "10.77.0.99"), ("host1",), together=True),
]

LOOK_ALIKES = [
    LookAlike("a second card that is reached", lambda: tried("open")),
    LookAlike("the name means a way in that is no address of its host", lambda: tried("open", "192.0.2.7")),
    LookAlike(
        "nothing of the node is reached", lambda: tried("no-answer", lost=True), instead="mesh/peer-ports-blocked"
    ),
    LookAlike("a second card, and a default route", lambda: second_card("10.77.0.0/24", "0.0.0.0/0")),
    LookAlike("a second card in a network of both", lambda: second_card("10.77.0.0/24", "10.99.0.0/24")),
    LookAlike("the announced name is known on the other", lambda: looked_up("10.77.0.10")),
    LookAlike(
        "own name unknown, one node with a port",
        lambda: one_node(master_port=29500, sources={"master_port": "--master-port"}),
    ),
    LookAlike("own name unknown, one node, older torch", lambda: one_node(torch="2.12.1+cpu")),
    LookAlike("own name unknown, one node, no torch yet", lambda: one_node(torch="")),
    LookAlike(
        "own name unknown, one node once per rank",
        lambda: one_node(started="rank", rank=0, nproc_per_node=1, world_size=1),
    ),
    LookAlike("own name forwarded here, one node", lambda: stale_own_name(True)),
    LookAlike(
        "own name unknown on the second, c10d",
        lambda: two_nodes_c10d(Resolution("host0", ("10.77.0.10",)), Resolution("host1", error="none")),
    ),
]

CURES = [
    Cure(
        "a card that the other reaches",
        lambda: tried("no-answer"),
        {"host0": {"flags": {"--local-addr": "10.77.0.10"}}, "host1": {"flags": {"--local-addr": "10.77.0.11"}}},
    ),
    Cure(
        "cards of both",
        lambda: second_card("10.77.0.0/24"),
        {"host0": {"flags": {"--local-addr": "10.77.0.10"}}, "host1": {"flags": {"--local-addr": "10.77.0.11"}}},
    ),
    Cure("PET_LOCAL_ADDR", template_address, {"host0": {"env": {"PET_LOCAL_ADDR": "10.77.0.10"}}}),
    Cure(
        "an address in place of a name",
        looked_up,
        {f"host{n}": {"flags": {"--local-addr": f"10.77.0.{10 + n}"}} for n in (0, 1)},
    ),
    Cure("a port, and no name", one_node, {"host0": {"flags": {"--master-port": "29500"}}}),
    Cure(
        "a port in place of standalone",
        standalone,
        {"host0": {"flags": {"--standalone": None, "--master-port": "29500"}}},
    ),
    Cure(
        "a port in place of a standalone that is left over",
        lambda: standalone(given="PET_STANDALONE"),
        {"host0": {"env": {"PET_STANDALONE": None}, "flags": {"--master-port": "29500"}}},
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_a_local_addr_is_not_called_the_own_name() -> None:
    (root,) = judged(*called_loopback()).roots
    assert "127.0.0.1 (--local-addr of host0)" in root.summary
    assert ("host0",) in {fix.nodes for fix in root.fixes if fix.flags == {"--local-addr": "10.77.0.10"}}
