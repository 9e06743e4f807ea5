"""environment/master-mismatch: what it finds, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.judge.saved import diagnose
from distdoctor.model.facts import Bind, Contact, StoreOnOtherPort
from distdoctor.model.facts.files import read
from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.odd import other_spellings
from tests.facts_builder import (
    CHECKS,
    PORT,
    healthy,
    judged,
    outside,
    waited_in_vain,
    with_master,
    with_meeting,
    with_network,
    with_plan,
)

CHECK = "environment/master-mismatch"
RECORDED = Path(__file__).parents[2] / "recorded"


def other_port() -> Facts:
    a, b = healthy(2)
    return waited_in_vain(a), outside(with_plan(b, master_port=29501, sources={"master_port": "--master-port"}))


def port_of_node_0(agree: int = 2) -> Facts:
    """Nobody comes to node 0's store: the others look for it on another port, and so many of them on the same one."""
    a, *others = healthy(3)
    ports = [29501, 29501 if agree == 2 else 29502]
    changed = [with_plan(one, master_port=at) for one, at in zip(others, ports, strict=True)]
    return waited_in_vain(a, expected=3), *(outside(one) for one in changed)


def other_port_by_init_method() -> Facts:
    a, b = other_port()
    sources = {"master_addr": "--init-method", "master_port": "--init-method"}
    return a, with_plan(b, init_method="tcp://10.77.0.10:29501", master_addr="10.77.0.10", sources=sources)


def waits_on_another_port() -> Facts:
    """host1 alone, which found a store of a check that lacks a node."""
    a, b = other_port()
    return (with_network(b, elsewhere=StoreOnOtherPort("10.77.0.10", PORT, "host0", a.plan)),)


def on_one_host() -> Facts:
    """Node 1 of two on one host, whose port of localhost nobody has; the other one waits beside it."""
    a, b = other_port()
    b = outside(with_master(b, "localhost", own=True, resolved=["127.0.0.1"]))
    return (with_network(b, elsewhere=StoreOnOtherPort("127.0.0.1", PORT, "host1", a.plan)),)


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


def forwarded() -> Facts:
    """Node 0 names its own address, node 1 the published port that is forwarded there."""
    a, b = healthy(2, declared=True)
    b = with_plan(with_master(b, "192.0.2.7"), master_port=30500)
    return a, with_network(b, contact=Contact("192.0.2.7", 30500, "open"))


ROWS = [
    Row("another port", other_port, ("host1",)),
    Row("node 0 alone has another port", port_of_node_0, ("host0",)),
    Row("three have three ports", lambda: port_of_node_0(1), ("host1", "host2")),
    Row("another port, seen by one alone", waits_on_another_port, ("host1", "host0"), blame="one-of"),
    Row("another port of the same host", on_one_host, ("host1", "node0"), blame="one-of"),
    Row("another address", other_address, ("host1",)),
    Row("another meaning", nobodys_address_on_one, ("host1",)),
    Row("each names itself", own_addresses, BOTH, blame="one-of"),
]

LOOK_ALIKES = [
    LookAlike("other spellings of one master", other_spellings),
    LookAlike("a published port that is forwarded to node 0", forwarded),
]

CURES = [
    Cure("another port", other_port, {"host1": {"flags": {"--master-port": "29500"}}}),
    Cure(
        "another port, by tcp://",
        other_port_by_init_method,
        {"host1": {"flags": {"--init-method": "tcp://10.77.0.10:29500"}}},
    ),
    Cure("another address", other_address, {"host1": {"flags": {"--master-addr": "10.77.0.10"}}}),
    Cure("each names itself", own_addresses, {"host1": {"flags": {"--master-addr": "10.77.0.10"}}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_alone_it_names_the_port_on_which_node_0_waits() -> None:
    (root,) = judged(*waits_on_another_port()).roots
    assert [fix.flags for fix in root.fixes] == [{"--master-port": "29500"}]
    assert "on port 29501 of host0, which has it on 29500" in root.summary


def test_a_node_that_met_its_own_run_after_all_names_no_other() -> None:
    a, b = healthy(2)
    there = StoreOnOtherPort("10.77.0.10", 29400, "host0", a.plan)
    assert judged(with_network(b, elsewhere=there)).findings == ()


@pytest.mark.parametrize("where", ["on-another-node", "where-nobody-is"])
def test_nothing_that_follows_from_it_blames_the_node_that_hosts_the_store(where: str) -> None:
    """Of three nodes one names another host than node 0: that host's shut port is no matter of node 0's."""
    report = diagnose(read([RECORDED / "cases" / f"one-of-three-looks-for-the-master-{where}.json.gz"]), CHECKS)
    failing = {finding.check: finding.nodes for finding in report.findings if finding.severity == "fail"}
    assert len(failing) > 2 and set(failing.values()) == {("host1",)}, failing
