"""network/port-in-use: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.facts import Answer, Bind, NodeFacts, PortHolder
from tests.checks.host.test_leftover_processes import OLD
from tests.checks.row import Facts, LookAlike, Row, first, fixes, found, left_alone
from tests.clusters.master import SSHD, held
from tests.clusters.odd import second_on_one_host_failed_to_bind
from tests.facts_builder import PORT, healthy, judged, outside, with_host, with_meeting, with_network, with_plan

CHECK = "network/port-in-use"


def left_on_the_port() -> Facts:
    a, b = healthy(2, declared=True)
    bind = Bind(False, PORT, 98, "in use", (PortHolder("0.0.0.0", 4711, "python", "me"),), None, 29501)
    a = with_network(outside(a, None), bind=bind, master_is_own=True)
    return with_host(a, leftovers=(replace(OLD, ports=(PORT,)),)), outside(b, "open")


PYTHON = PortHolder("0.0.0.0", 4242, "python3", "root")


def beside_another_run(**meeting: object) -> Facts:
    """Node 0 of two finds a mark that it cannot open, on its own address; so does its other node."""
    a, b = (
        with_network(outside(one, "open"), answer=Answer("distdoctor", "2.5+")) for one in healthy(2, declared=True)
    )
    a = with_network(a, bind=Bind(False, PORT, 98, "in use", (PYTHON,), Answer("distdoctor"), 29501))
    return with_meeting(a, ours=False, **meeting), with_meeting(b, ours=False, **meeting)


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


ROWS = [
    Row("port in use, silent", lambda: held(Answer("silent"), SSHD), ("host0",)),
    Row("port in use, unseen", lambda: held(None, PortHolder("0.0.0.0")), ("host0",)),
    Row("a rank of an earlier run on the port", left_on_the_port, ("host0",)),
    Row(
        "another run with another token",
        lambda: beside_another_run(token="different"),
        ("host0",),
        alone=("store/token-mismatch",),
    ),
    Row(
        "another run without a token",
        lambda: beside_another_run(token="unexpected"),
        ("host0",),
        alone=("store/token-mismatch",),
    ),
    Row(
        "another run, which has a token",
        lambda: beside_another_run(token="missing"),
        ("host0",),
        alone=("store/token-mismatch",),
    ),
    Row(
        "another run of another distdoctor",
        lambda: beside_another_run(speaks="0.2.0"),
        ("host0",),
        alone=("store/protocol-mismatch",),
    ),
    Row("another run, one node", beside_another_run_alone, ("host0",)),
    Row("another run that ended before", lambda: joined_another_run("lost"), ("host0",), alone=("store/node-lost",)),
    Row(
        "another run that was full",
        lambda: joined_another_run("full"),
        ("host0",),
        alone=("environment/too-many-nodes",),
    ),
]

LOOK_ALIKES = [LookAlike("the doctor's own store on the same host", second_on_one_host_failed_to_bind)]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_another_port_is_the_first_remedy_and_ending_a_process_the_last() -> None:
    found = fixes(*held(None, SSHD))
    assert [(f.option, f.nodes, f.flags) for f in found] == [
        (1, ("host0", "host1"), {"--master-port": "29501"}),
        (2, ("host0",), {}),
    ]
    assert "leftover of your own" in found[1].text and "sshd (pid 77)" in found[1].text


def test_another_port_is_set_in_the_environment_of_each_rank() -> None:
    a, b = held(None)
    a, b = (
        with_plan(one, started="rank", rank=n, sources={"master_port": "MASTER_PORT"}) for n, one in enumerate((a, b))
    )
    assert [(f.nodes, f.env) for f in first(a, b)] == [(("host0", "host1"), {"MASTER_PORT": "29501"})]


def test_what_another_users_process_hides_is_said() -> None:
    (root,) = judged(*held(None, PortHolder("0.0.0.0"))).roots
    assert root.evidence == ("host0: 0.0.0.0:29500 is held by another user's process: not visible without root",)


def test_a_job_that_has_the_port_and_says_nothing_is_looked_into_with_hang() -> None:
    job = PortHolder("::", 4711, "python", "ann", hosts_store=True)
    (root,) = judged(*held(Answer("silent"), job)).roots
    told = "; `distdoctor hang --pid 4711` shows what that job waits for"
    assert root.check == CHECK and any(line.endswith(told) for line in root.evidence)
    (root,) = judged(*held(Answer("silent"), SSHD)).roots
    assert not any("distdoctor hang" in line for line in root.evidence)


def test_a_connection_that_has_the_port_is_told_with_its_other_end() -> None:
    holder = PortHolder("10.77.0.10", 4711, "curl", "ann", "10.77.0.11:8888")
    (root,) = judged(*held(None, holder)).roots
    (line,) = root.evidence
    assert line == (
        "host0: 10.77.0.10:29500 is the own end of a connection to 10.77.0.11:8888, held by curl, pid 4711, user ann"
    )
    assert root.fixes[-1].text.endswith("end curl (pid 4711). Confirm with: `ps -fp 4711`.")


@pytest.mark.parametrize("facts", [beside_another_run(token="different"), beside_another_run_alone()])
def test_another_run_of_the_check_on_the_port_is_named_as_that(facts: tuple[NodeFacts, ...]) -> None:
    """And nobody is told to type another token, or to look for what ended node 0."""
    (root,) = judged(*facts).roots
    assert root.summary == "Another run of distdoctor check holds port 29500 of host0."
    assert "pid 4242" in " ".join(root.evidence)
    ports = [(fix.option, fix.flags, fix.nodes) for fix in root.fixes if fix.flags]
    assert ports == [(1, {"--master-port": "29501"}, tuple(one.identity.hostname for one in facts))]
    assert "started twice" in root.fixes[-1].text and "DISTDOCTOR_TOKEN" not in " ".join(f.text for f in root.fixes)


@pytest.mark.parametrize("answer", [Answer("tcpstore", "2.5+"), Answer("foreign", sample="SSH-2.0")], ids=str)
def test_what_another_node_finds_there_is_the_root_where_node_0_does_not_reach_itself(answer: Answer) -> None:
    """Its loopback interface is down: it is told EADDRINUSE, and no more."""
    a, b = held(None)
    assert a.host is not None
    lo, eth0 = a.host.interfaces
    a = with_host(a, interfaces=(replace(lo, up=False), eth0))
    b = with_meeting(with_network(b, answer=answer), ours=False)
    there = "store/foreign-store" if answer.kind == "tcpstore" else "network/foreign-service"
    assert {one.check: one.nodes for one in judged(a, b).roots} == {"host/lo-down": ("host0",), there: ("host0",)}
    assert {one.check for one in judged(a).roots} == {"host/lo-down", CHECK}
