"""network/master-resolves-differently: what it finds, and what it leaves alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from distdoctor.model.facts import AddressChoice, Bind, Contact, Interface
from tests.checks.row import Facts, LookAlike, Row, fixes, found, left_alone
from tests.clusters.master import named
from tests.facts_builder import (
    PORT,
    healthy,
    judged,
    outside,
    waited_in_vain,
    with_host,
    with_master,
    with_meeting,
    with_network,
    with_plan,
)

CHECK = "network/master-resolves-differently"


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


def own_name_on_loopback() -> Facts:
    a, b = healthy(2)
    return with_master(a, "host0", own=True, resolved=["127.0.1.1"]), named(b, "10.77.0.10")


def one_name_two_interfaces() -> Facts:
    """The master's name is another interface of node 0 for one of the nodes."""
    a, b, c = healthy(3)
    assert a.host is not None
    a = with_host(a, interfaces=(*a.host.interfaces, Interface("eth1", ("192.168.5.10",), (24,))))
    return named(a, "10.77.0.10", True), named(b, "10.77.0.10"), named(c, "192.168.5.10")


ROWS = [
    Row("another host on one", other_host, ("host1",)),
    Row("itself on one of three", itself_undeclared, ("host1",)),
    Row("a name for an address that each node has", lambda: on_every_node("train-master"), ("host1",)),
    Row("an address that each node has", lambda: on_every_node("10.96.0.77"), ("host1",)),
]

LOOK_ALIKES = [
    LookAlike(
        "an address that each node has, forwarded to node 0", lambda: on_every_node("train-master", met_there=True)
    ),
    LookAlike("the same, without a name", lambda: on_every_node("10.96.0.77", met_there=True)),
    LookAlike("own name on loopback", own_name_on_loopback),
    LookAlike("one name, two interfaces", one_name_two_interfaces),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("127.0.0.1 localhost\n10.77.0.200 host0\n", "127.0.0.1 localhost\n10.77.0.200 \n10.77.0.10 host0\n"),
        ("10.77.0.200 host0.lab host0 # old\n", "10.77.0.200 host0.lab  # old\n10.77.0.10 host0\n"),
        ("10.77.0.200 host0 gpu0\n10.77.0.11 host01\n", "10.77.0.200  gpu0\n10.77.0.11 host01\n10.77.0.10 host0\n"),
        ("# 10.77.0.200 host0\n", "# 10.77.0.200 host0\n10.77.0.10 host0\n"),
    ],
)
def test_the_name_is_moved_in_the_hosts_file(tmp_path: Path, before: str, after: str) -> None:
    """The command is run on a copy of the file, as pasted."""
    hosts = tmp_path / "hosts"
    hosts.write_text(before)
    (command,) = fixes(*other_host())[0].commands
    subprocess.run(["sh", "-c", command.replace("/etc/hosts", str(hosts))], check=True)
    assert hosts.read_text() == after


def test_a_hostile_name_runs_nothing(tmp_path: Path) -> None:
    """A name comes from a node's launch line: data, also in a command that is pasted into a shell."""
    name = "a'$(touch x);`touch y`'\"*/e"
    a, b = (with_plan(one, master_addr=name) for one in other_host())
    (command,) = fixes(a, b)[0].commands
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    subprocess.run(["sh", "-c", command.replace("/etc/hosts", str(hosts))], check=True, cwd=tmp_path)
    assert hosts.read_text() == f"127.0.0.1 localhost\n10.77.0.10 {name}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["hosts"]


@pytest.mark.parametrize("master", ["train-master", "10.96.0.77"])
def test_an_address_that_each_node_has_is_not_set_again(master: str) -> None:
    """Node 0 is named by one that only it has; and that host1 was refused, by itself, is no packet filter's doing."""
    found = judged(*on_every_node(master))
    (root,) = found.roots
    assert [(fix.nodes, fix.flags) for fix in root.fixes] == [(("host0", "host1"), {"--master-addr": "10.77.0.10"})]
    assert "host1 has node 0's address" in root.summary and "kube-ipvs0" in " ".join(root.evidence)
    (refused,) = [f for f in found.findings if f.check == "network/port-refused"]
    assert refused.because_of == root.id and refused.nodes == ("host1",)
    assert "it connected to itself" in " ".join(refused.evidence)
    assert not any("let it through" in fix.text or fix.commands for fix in refused.fixes)


def test_an_address_is_not_said_to_be_itself() -> None:
    (root,) = (finding for finding in judged(*on_every_node("10.96.0.77")).findings if finding.check == CHECK)
    assert root.evidence == (
        "host0: hosts the store",
        "host0: 10.96.0.77 is its own (kube-ipvs0)",
        "host1: 10.96.0.77 is its own (kube-ipvs0)",
    )


def test_who_hosts_a_store_for_itself_need_not_be_node_0_where_that_ones_facts_are_missing() -> None:
    _, b, c = itself_undeclared()
    (root,) = judged(b, c).roots
    assert (root.check, root.blame) == (CHECK, "one-of")
