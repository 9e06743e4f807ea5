"""Rows about who takes part: too many, without the run's token, or not at all and writing all the same."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import Answer, Bind, PortHolder
from tests.checks.row import Facts, Row
from tests.facts_builder import PORT, healthy, met, outside, waited_in_vain, with_meeting, with_network, with_plan

PYTHON = PortHolder("0.0.0.0", 4242, "python3", "root")
FORGED = ("c/0 was there before node 0 wrote it",)


def three_of_two(*declared: int) -> Facts:
    facts = list(healthy(3))
    for number, one in enumerate(facts):
        rank = number if number in declared else None
        plan = replace(one.plan, nnodes=2, world_size=4, node_rank=rank)
        facts[number] = replace(one, plan=plan)
    return met(*facts, expected=2)


def twice_on_one_host() -> Facts:
    """4 of 3 nodes: the last one is on the host of the third."""
    facts = [replace(one, plan=replace(one.plan, nnodes=3, world_size=6)) for one in healthy(4)]
    facts[3] = replace(facts[3], identity=replace(facts[2].identity, pid=77))
    return met(*facts, expected=3)


def late_third() -> Facts:
    a, b, c = three_of_two()
    a, b = met(a, b, expected=2)
    return a, b, with_meeting(outside(c, "open"), late=2)


def without_token(how: str) -> Facts:
    a, b = healthy(2)
    a = with_meeting(waited_in_vain(a), token="" if how == "unexpected" else "agreed")
    b = with_network(outside(b, "open"), answer=Answer("distdoctor", "2.5+"))
    return a, with_meeting(b, ours=False, token=how)


def forged_for_node_0() -> Facts:
    a, b = healthy(2)
    return with_meeting(a, forged=FORGED), b


def forged_for_a_member() -> Facts:
    a, b = healthy(2)
    return a, with_meeting(b, forged=("report/0 is not the report that node 0 announced",))


def forged_marker() -> Facts:
    a, b = healthy(2)
    b = with_network(outside(b, "open"), answer=Answer("distdoctor", "2.5+"))
    return waited_in_vain(a), with_meeting(b, ours=False, forged=("marker is nothing that a node 0 writes",))


def beside_another_run(token: str, **bind: object) -> Facts:
    """Node 0 of two finds a mark that it cannot open, on its own address; so does its other node."""
    a, b = (
        with_network(outside(one, "open"), answer=Answer("distdoctor", "2.5+")) for one in healthy(2, declared=True)
    )
    a = with_network(a, bind=Bind(False, PORT, 98, "in use", (PYTHON,), Answer("distdoctor"), 29501))
    return with_meeting(a, token=token, ours=False), with_meeting(b, token=token, ours=False)


def beside_another_run_alone() -> Facts:
    (one,) = healthy(1)
    one = with_plan(outside(one, "open"), node_rank=0)
    return (with_network(one, bind=Bind(False, PORT, 98, "in use", (PYTHON,), Answer("distdoctor"), 29501)),)


def joined_another_run(ending: str) -> Facts:
    """Without tokens: both nodes joined a run that was over before theirs."""
    facts = [with_network(outside(one, "open"), answer=Answer("distdoctor")) for one in healthy(2, declared=True)]
    if ending == "lost":
        return tuple(with_meeting(one, joined=True, ours=True, host_lost=True) for one in facts)
    return tuple(with_meeting(one, ours=True, late=2) for one in facts)


MANY = "environment/too-many-nodes"
TOKEN = "store/token-mismatch"
TAKEN = "network/port-in-use"

ROWS = [
    Row("3 of 2 nodes", three_of_two, MANY, ("host1", "host2"), blame="one-of", together=True),
    Row("3 of 2 nodes, one of them declared", lambda: three_of_two(0, 1), MANY, ("host2",), together=True),
    Row("twice on one host", twice_on_one_host, MANY, ("host2#2", "host2#3"), blame="one-of", together=True),
    Row("one too late", late_third, MANY, ("host2",), together=True),
    Row("no token on node 1", lambda: without_token("missing"), TOKEN, ("host1",)),
    Row("another token on node 1", lambda: without_token("different"), TOKEN, ("host1",)),
    Row("a token on node 1 alone", lambda: without_token("unexpected"), TOKEN, ("host1",)),
    Row("another run with another token", lambda: beside_another_run("different"), TAKEN, ("host0",), alone=(TOKEN,)),
    Row("another run without a token", lambda: beside_another_run("unexpected"), TAKEN, ("host0",), alone=(TOKEN,)),
    Row("another run, which has a token", lambda: beside_another_run("missing"), TAKEN, ("host0",), alone=(TOKEN,)),
    Row("another run, one node", beside_another_run_alone, TAKEN, ("host0",)),
    Row(
        "another run that ended before",
        lambda: joined_another_run("lost"),
        TAKEN,
        ("host0",),
        alone=("store/node-lost",),
    ),
    Row("another run that was full", lambda: joined_another_run("full"), TAKEN, ("host0",), alone=(MANY,)),
    Row("written before node 0", forged_for_node_0, "store/forged-message", ("host0",), together=True),
    Row("another report", forged_for_a_member, "store/forged-message", ("host0",), together=True),
    Row("a mark that is none", forged_marker, "store/forged-message", ("host0",)),
]
