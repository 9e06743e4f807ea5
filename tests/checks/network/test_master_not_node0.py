"""network/master-not-node0: what it finds, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from distdoctor.model.facts import Bind, Contact
from tests.checks.row import BOTH, Facts, LookAlike, Row, fixes, found, left_alone
from tests.clusters.odd import other_spellings
from tests.clusters.routes import LAN, route, routed
from tests.facts_builder import (
    PORT,
    alone,
    healthy,
    judged,
    outside,
    rank_node,
    waited_in_vain,
    with_host,
    with_master,
    with_meeting,
    with_network,
    with_plan,
    with_variables,
)

CHECK = "network/master-not-node0"


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


def up_to_the_network(*masters: str) -> Facts:
    """Of hosts that were asked from one place, and have not tried to meet."""
    loopback = {"localhost": ["127.0.0.1"]}
    both = (
        with_network(with_master(one, master, own=True, resolved=loopback.get(master, ["10.77.0.10"])), primary=None)
        for one, master in zip(healthy(2, declared=True), masters, strict=True)
    )
    return tuple(replace(one, meeting=None, mesh=None, ranks=()) for one in both)


def elastic(least: int) -> Facts:
    """--nnodes MIN:2 with an endpoint on localhost, and nobody else came."""
    a, _ = localhost(False)
    return (with_plan(a, min_nodes=least, rdzv_backend="c10d"),)


def by_hand(number: int, **plan: object) -> Facts:
    """Ranks 0 and 1 of two hosts, that say nothing of hosts but what ``plan`` does; the one of this number alone."""
    ones = [rank_node(f"host{n}", n, per_node=None) for n in range(2)]
    ones = [with_network(with_master(one, "localhost", own=True, resolved=["127.0.0.1"]), primary=None) for one in ones]
    one = (waited_in_vain(ones[0]), outside(ones[1]))[number]
    return (with_plan(one, **plan),)


def localhost_on_one() -> Facts:
    a, b = healthy(2, declared=True)
    b = with_network(with_master(b, "localhost", own=True, resolved=["127.0.0.1"]), primary=None)
    return waited_in_vain(a), outside(b)


def localhost_beside_a_store(of: int) -> Facts:
    """With c10d each node that has the endpoint's address hosts a store: one at localhost, the others at host0's."""
    ones = [with_plan(one, rdzv_backend="c10d", nnodes=of) for one in healthy(of)]
    lost = with_network(with_master(ones[1], "localhost", own=True, resolved=["127.0.0.1"]), primary=None)
    lost = with_meeting(waited_in_vain(lost, of), hosted=True)
    others = [one for number, one in enumerate(ones) if number != 1]
    zero = with_meeting(others[0], arrived=tuple(one.key for one in others), expected=of, ended=True, waited=60.0)
    return (zero, lost, *others[1:])


def published(visitors: int = 0) -> Facts:
    """Node 0 in a container: its port is published at 10.77.0.99, which it does not reach itself."""
    a, b = healthy(2, declared=True)
    a = with_network(outside(with_master(a, "10.77.0.99")), bind=Bind(True, PORT))
    b = with_network(with_master(b, "10.77.0.99"), contact=Contact("10.77.0.99", PORT, "open"))
    return with_meeting(a, visitors=visitors), with_meeting(alone(b), host_lost=True)


def in_a_container(name: str = "host0") -> Facts:
    """Tasks of SLURM in containers that have a network of their own; the first is on the node of this name."""
    a, b = (outside(with_master(one, "host0", resolved=["10.99.0.10"])) for one in healthy(2, declared=True))
    a = replace(a, variables={**a.variables, "SLURMD_NODENAME": name})
    return with_network(a, bind=Bind(True, PORT)), b


ROWS = [
    Row("a container with a network of its own", in_a_container, BOTH),
    Row("an address that is forwarded, and not for node 0 itself", published, ("host0",), alone=("store/node-lost",)),
    Row("the same, seen by node 0 alone", lambda: published(1)[:1], ("host0",)),
    Row("nobody's address", nobodys_address, BOTH),
    Row("nobody's address, no ranks declared", nobodys_address_undeclared, BOTH),
    Row("node 1's address", node_1s_address, BOTH),
    Row("localhost", lambda: localhost(True), BOTH),
    Row("localhost, no ranks declared", lambda: localhost(False), BOTH),
    Row("localhost, an elastic job that one node starts", lambda: elastic(1), ("host0",), severity="warn"),
    Row("localhost, an elastic job of two at least", lambda: elastic(2), ("host0",)),
    Row("localhost by hand, a node rank", lambda: by_hand(1, node_rank=1), ("host1",)),
    Row("localhost by hand, the second rank of a later node", lambda: by_hand(1, rank=5, local_rank=1), ("host1",)),
    Row("localhost on one", localhost_on_one, ("host1",)),
    Row("localhost on one of 2, c10d", lambda: localhost_beside_a_store(2), ("host1",), together=True),
    Row("localhost on one of 3, c10d", lambda: localhost_beside_a_store(3), ("host1",), together=True),
    Row("localhost, seen up to the network", lambda: up_to_the_network("localhost", "localhost"), BOTH, together=True),
    Row(
        "localhost on one, seen up to the network",
        lambda: up_to_the_network("host0", "localhost"),
        ("host1",),
        together=True,
    ),
]

LOOK_ALIKES = [
    LookAlike("other spellings of one master", other_spellings),
    LookAlike("localhost by hand, perhaps on one host: node 0", lambda: by_hand(0), "store/nodes-missing"),
    LookAlike("localhost by hand, perhaps on one host", lambda: by_hand(1), "store/nodes-missing"),
    LookAlike("each rank with a GPU mask of its own", lambda: by_hand(1, local_rank=0), "store/nodes-missing"),
    LookAlike("localhost on node 0 alone", lambda: up_to_the_network("localhost", "host0")),
    LookAlike("localhost, and nothing is known of node 0", lambda: up_to_the_network("localhost", "localhost")[1:]),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


@pytest.mark.parametrize("make", [published, lambda: published(1)[:1]])
def test_a_forwarded_address_is_replaced_on_node_0_alone(make: Callable[[], Facts]) -> None:
    (fix,) = fixes(*make())
    assert (fix.nodes, fix.flags) == (("host0",), {"--master-addr": "10.77.0.10"})
    assert "the other nodes keep" in fix.text


@pytest.mark.parametrize("make", [nobodys_address, node_1s_address, lambda: localhost(True)])
def test_the_wrong_master_is_replaced_on_every_node(make: Callable[[], Facts]) -> None:
    (fix,) = fixes(*make())
    assert (fix.nodes, fix.flags) == (("host0", "host1"), {"--master-addr": "10.77.0.10"})


def test_an_address_that_no_other_node_has_a_way_to_is_no_address_for_the_master() -> None:
    """A port that is published to another port of the container: its own address would be no better."""
    a, b = nobodys_address()
    assert a.host is not None
    lo, eth0 = a.host.interfaces
    a = with_host(a, interfaces=(lo, replace(eth0, addresses=("172.17.0.2",), prefix_lengths=(16,))))
    a = routed(with_network(a, primary=None), route("172.17.0.0/16"))
    (fix,) = fixes(a, routed(b, route(LAN)))
    assert not fix.flags and "--network=host" in fix.text
    assert fixes(a, routed(b, route(LAN), route("0.0.0.0/0", "10.77.0.1")))[0].flags == {"--master-addr": "172.17.0.2"}


def test_who_takes_itself_for_node_0_beside_another_is_not_told_to_be_it() -> None:
    (root,) = judged(*localhost_beside_a_store(3)).roots
    assert "host1 acts as node 0 and has" in " ".join(root.evidence)


def test_the_master_is_set_where_it_came_from() -> None:
    a, b = nobodys_address()
    a = with_plan(a, sources={"master_addr": "PET_MASTER_ADDR"})
    b = with_plan(b, sources={"master_addr": "--rdzv-endpoint"})
    assert [(f.env, f.flags) for f in fixes(a, b)] == [
        ({"PET_MASTER_ADDR": "10.77.0.10"}, {}),
        ({}, {"--rdzv-endpoint": "10.77.0.10:29500"}),
    ]


def test_a_docker_bridge_is_never_taken_for_an_address_of_node_0() -> None:
    a, b = localhost(True)
    assert a.host is not None
    docker = replace(a.host.interfaces[1], name="docker0", addresses=("172.17.0.1",), prefix_lengths=(16,))
    a = with_host(a, interfaces=(docker, *a.host.interfaces))
    assert fixes(a, b)[0].flags == {"--master-addr": "10.77.0.10"}


def test_an_address_that_means_every_host_is_localhost_for_each() -> None:
    a, b = (with_master(one, "0.0.0.0", own=False, resolved=["0.0.0.0"]) for one in healthy(2, declared=True))
    (root,) = judged(waited_in_vain(a), outside(b)).roots
    assert (root.check, root.nodes) == (CHECK, ("host0", "host1"))


def test_a_name_that_means_just_its_own_host_on_one_node_is_right_on_the_others() -> None:
    a, b = (with_master(one, "host0", own=None, resolved=["10.77.0.10"]) for one in healthy(2, declared=True))
    b = with_master(b, "host0", own=True, resolved=["127.0.1.1"])
    (root,) = judged(waited_in_vain(a), outside(b)).roots
    assert (root.check, root.nodes) == ("network/master-resolves-differently", ("host1",))


def test_a_container_without_the_host_s_network_is_to_have_it() -> None:
    assert "--network=host" in fixes(*in_a_container())[0].text
    assert not any("--network=host" in fix.text for fix in fixes(*in_a_container("host7")))


@pytest.mark.parametrize(
    ("listed", "address"),
    [("gpu[01-16],extra7", "gpu01"), ("gpu07,gpu09", "gpu07"), ("gpu-3-[2,5]", "gpu-3-2"), ("gpu07", None), ("", None)],
)
def test_a_launch_script_fell_back_to_localhost(listed: str, address: str | None) -> None:
    """scontrol is not in the container; the job's own list of nodes says which one it should have named."""
    nodes = [with_variables(one, SLURM_JOB_NODELIST=listed) for one in localhost(False)]
    for one in nodes:
        (root,) = judged(one).roots
        assert root.check == CHECK
        told = {value for fix in root.fixes for value in (*fix.env.values(), *fix.flags.values())}
        assert (address in told) == (address is not None) and not told & {"gpu07", "extra7"} - {address}
        assert any("scontrol" in line for line in root.evidence) == (address is not None)


def test_localhost_may_be_right_for_a_node_that_met_nobody() -> None:
    """Its nodes may all belong on this host, which one of them alone cannot know; where others were seen, it is not."""
    _, b = localhost(declared=True)
    first, second = fixes(b)
    assert first.unknown == ("--master-addr",)
    assert second.text.endswith(f"keep localhost and start the others here with port {PORT}.")
    assert not any("is right" in fix.text for fix in fixes(*localhost(declared=True)))


def test_a_node_0_whose_facts_are_not_here_may_have_the_address() -> None:
    """Its process was killed at once: node 1 and 2 of 3 waited for its store, each with its own rank."""
    b, c = (with_master(one, "host0", resolved=["10.77.0.10"]) for one in healthy(3, declared=True)[1:])
    assert {one.check for one in judged(outside(b), outside(c)).roots} == {"store/nodes-missing"}
    unset = [with_plan(outside(one), node_rank=None) for one in (b, c)]
    assert {one.check for one in judged(*unset).roots} == {"store/nodes-missing"}
    both = [with_plan(one, nnodes=2) for one in unset]  # nobody else is to come: it is none of them
    assert {one.check for one in judged(*both).roots} == {CHECK}
