"""A fix is printed only if what was seen supports it: the look-alikes of a failure get another one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.facts import AddressChoice, Answer, Bind, Limits, Link, MeshFacts
from tests.checks import rows_trust
from tests.facts_builder import (
    PORT,
    failing,
    healthy,
    judged,
    met,
    node,
    outside,
    rank_node,
    waited_in_vain,
    with_host,
    with_meeting,
    with_network,
    with_plan,
)

KILLED = "ended after 3 s: another rank failed"


def said(text: str, **limits: object) -> tuple[list[str], str]:
    """The roots where a rank of host1 says this, and all that their fixes hold."""
    a, b = healthy(2)
    b = failing(with_host(b, limits=Limits(**limits)), "gloo", text)  # type: ignore[arg-type]
    roots = judged(failing(a, "gloo", KILLED, killed=True), b).roots
    return [f.check for f in roots], " ".join(" ".join((x.text, *x.commands)) for f in roots for x in f.fixes)


def test_the_kernels_own_table_of_files_is_no_limit_of_the_shell() -> None:
    checks, fixes = said("OSError: Too many open files in system", open_files=65536, open_files_hard=65536)
    assert checks == ["gloo/init-failed"] and "fs.file-max" in fixes and "ulimit" not in fixes
    checks, fixes = said("OSError: Too many open files", open_files=65536, open_files_hard=-1)
    assert checks == ["host/open-files-limit"] and "ulimit -n 131072" in fixes


def test_an_address_that_a_host_lacks_is_no_lack_of_ports() -> None:
    checks, fixes = said("bind: Cannot assign requested address", port_range=(32768, 60999))
    assert checks == ["gloo/init-failed"] and "ip_local_port_range" not in fixes
    checks, fixes = said("connect: Cannot assign requested address", port_range=(32768, 60999))
    assert checks == ["host/ports-exhaustible"] and "ip_local_port_range" in fixes


def test_an_interface_whose_first_address_is_the_wrong_one_is_not_named() -> None:
    """gloo would take the same address again."""
    a, b = healthy(2)
    assert b.host is not None
    eth0 = replace(b.host.interfaces[1], addresses=("10.55.0.11", "10.77.0.11"), prefix_lengths=(24, 24))
    b = with_host(b, interfaces=(b.host.interfaces[0], eth0), gloo=AddressChoice("10.55.0.11", "eth0", "hostname"))
    bad = Link(b.key, "10.55.0.11", 40001, ("gloo",), "unreachable", 113)
    (root,) = judged(replace(a, mesh=MeshFacts(good=1, bad=(bad,))), b).roots
    assert root.check == "gloo/interface-unreachable"
    assert [(fix.env, "10.77.0.11" in fix.text) for fix in root.fixes] == [({}, True)]


def test_a_rank_that_was_started_twice_is_to_be_started_once() -> None:
    a, b = (rank_node(f"host{n}", n) for n in range(2))
    twin = replace(b, identity=replace(b.identity, pid=b.identity.pid + 500))
    (root,) = (f for f in judged(*met(a, b, twin)).roots if f.check == "environment/duplicate-rank")
    fix, other = root.fixes
    assert "started 2 times on host1 (pids 2001 and 2501)" in fix.text and not fix.env
    assert "two jobs" in other.text and (other.option, other.env) == (2, {"MASTER_PORT": "29501"})


@pytest.mark.parametrize("name", ["another run with another token", "another run, one node"])
def test_another_run_of_the_check_on_the_port_is_named_as_that(name: str) -> None:
    """And nobody is told to type another token, or to look for what ended node 0."""
    (row,) = (row for row in rows_trust.ROWS if row.name == name)
    facts = row.facts()
    (root,) = judged(*facts).roots
    assert root.summary == "Another run of distdoctor check has port 29500 of host0."
    assert "pid 4242" in " ".join(root.evidence)
    ports = [(fix.option, fix.flags, fix.nodes) for fix in root.fixes if fix.flags]
    assert ports == [(1, {"--master-port": "29501"}, tuple(one.identity.hostname for one in facts))]
    assert "started twice" in root.fixes[-1].text and "DISTDOCTOR_TOKEN" not in " ".join(f.text for f in root.fixes)


def test_a_node_without_the_token_beside_node_0_on_one_host_is_of_the_same_run() -> None:
    """Its own plan does not make it node 0: the port is where it belongs."""
    a, b = (node("h", n, ip="127.0.0.1", master="127.0.0.1", netns="n", pid=n + 1) for n in range(2))
    b = with_meeting(with_network(outside(b, "open"), answer=Answer("distdoctor")), token="missing", ours=False)
    roots = judged(with_meeting(waited_in_vain(a), token="agreed"), b).roots
    assert [root.check for root in roots] == ["store/token-mismatch"]
    assert [fix.flags for fix in roots[0].fixes] == [{}, {"--master-port": "29501"}]


def test_a_node_0_that_was_there_is_not_to_be_started() -> None:
    """It came when the other had given up; or it hosts elsewhere."""
    a, b = healthy(2)
    a, b = replace(waited_in_vain(a), started_at=5000.0), replace(outside(b), started_at=1000.0)
    a = with_network(a, bind=Bind(True, PORT))
    texts = [fix.text for f in judged(a, b).findings if f.check == "network/port-refused" for fix in f.fixes]
    assert texts and all("Start node 0" not in text and "within --wait" in text for text in texts)
    other = with_plan(b, master_port=29501, sources={"master_port": "--master-port"})
    assert other.network is not None and other.network.contact is not None
    other = with_network(other, contact=replace(other.network.contact, port=29501))
    texts = [fix.text for f in judged(a, other).findings if f.check == "network/port-refused" for fix in f.fixes]
    assert texts and all("hosts its store on 29500, not 29501" in text for text in texts)
