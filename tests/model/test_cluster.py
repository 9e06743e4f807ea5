"""Nodes out of processes: names, order, who is node 0."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.addresses import is_loopback, parse_address
from distdoctor.model.cluster import Part, build
from distdoctor.model.facts import RankFacts, Resolution
from tests.facts_builder import healthy, met, node, rank_node, with_host, with_meeting, with_plan


def test_no_facts_are_no_cluster() -> None:
    with pytest.raises(ValueError, match="no facts"):
        build([])


def test_node_0_comes_first_and_names_are_host_names() -> None:
    a, b, c = healthy(3)
    assert [n.name for n in build([c, b, a]).nodes] == ["host0", "host1", "host2"]


def test_a_repeated_host_name_gets_its_node_rank() -> None:
    facts = met(node("host", 0), node("host", 1, netns="other"))
    assert [n.name for n in build(facts).nodes] == ["host#0", "host#1"]


def test_names_are_unique_even_with_the_same_rank_twice() -> None:
    a, b = node("host", 0, declared=True), node("host", 0, declared=True, pid=7, netns="other")
    names = [n.name for n in build([a, b]).nodes]
    assert len(set(names)) == 2 and all(name.startswith("host#0") for name in names)


def test_processes_of_one_node_are_put_together() -> None:
    ones = [rank_node(f"host{r // 2}", r, world=4, local=r % 2, per_node=2) for r in range(4)]
    cluster = build(met(*ones)[::-1])
    assert [n.name for n in cluster.nodes] == ["host0", "host1"]
    assert [n.ranks for n in cluster.nodes] == [(0, 1), (2, 3)]
    assert [len(n.keys) for n in cluster.nodes] == [2, 2]
    assert cluster.by_key[ones[3].key] is cluster.nodes[1]
    assert len(cluster.slices) == 4
    assert all(n.facts.host is not None for n in cluster.nodes)


def test_a_host_is_name_boot_and_namespace() -> None:
    a, b = node("host", 0), node("host", 1)
    assert build([a, b]).multi_host is False
    same = b.identity
    for identity in (replace(same, boot_id="x"), replace(same, netns="x"), replace(same, hostname="x")):
        other = replace(b, identity=identity)
        assert build([a, other]).multi_host is True


def test_one_node_of_several_planned_spans_hosts_as_far_as_known() -> None:
    assert build([node("host0", 0, of=2)]).multi_host is True
    assert build([node("host0", 0, of=1)]).multi_host is False


def test_node_0_is_the_host_of_the_store_else_the_one_that_says_so() -> None:
    a, b = healthy(2)
    zero = build([a, b]).node0
    assert zero is not None and zero.name == "host0"
    no_host = with_meeting(with_plan(a, node_rank=0), hosted=False)
    named = build([replace(no_host, ranks=()), replace(b, ranks=())]).node0
    assert named is not None and named.name == "host0"
    assert build([replace(with_meeting(a, hosted=False), ranks=()), replace(b, ranks=())]).node0 is None
    both = [with_meeting(one, hosted=True) for one in healthy(2)]
    assert build([replace(one, ranks=()) for one in both]).node0 is None


def test_the_address_gloo_really_took_counts_more_than_the_prediction() -> None:
    one = node("host0", 0)
    (found,) = build([one]).nodes
    assert found.gloo_address == "10.77.0.10"
    other = replace(one.ranks[0].stages[1], detail={"address": "10.9.9.9", "port": 1})
    one = replace(one, ranks=(replace(one.ranks[0], stages=(other,)),))
    assert build([one]).nodes[0].gloo_address == "10.9.9.9"
    assert build([replace(one, ranks=(RankFacts(0, 0),))]).nodes[0].gloo_address == "10.77.0.10"


def test_interface_of_an_address() -> None:
    (found,) = build([node("host0", 0)]).nodes
    assert found.interface_of("10.77.0.10") == "eth0"
    assert found.interface_of("10.77.0.99") is None
    assert found.addresses == ("127.0.0.1", "::1", "10.77.0.10")


@pytest.mark.parametrize(
    ("text", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.0.1.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("localhost", False),
        ("", False),
        (None, False),
    ],
)
def test_loopback(text: str | None, loopback: bool) -> None:
    assert is_loopback(text) is loopback


def test_parse_takes_no_names() -> None:
    assert parse_address("host0") is None and parse_address("1") is None and parse_address("10.0.0.256") is None
    assert str(parse_address("fe80::1%eth0")) == "fe80::1"


def test_what_was_not_seen_reads_as_empty_and_is_told_from_what_is_empty() -> None:
    seen, unseen = healthy(2)
    (first, second) = build([seen, replace(unseen, host=None, network=None, meeting=None, mesh=None)]).nodes
    parts: tuple[Part, ...] = ("host", "network", "meeting", "mesh")
    assert not any(second.saw(part) for part in parts)
    assert first.saw("host") and first.saw("network") and first.saw("meeting")
    assert not (second.interfaces or second.addresses or second.master_addresses or second.filter_chains)
    assert second.limits.open_files is None and second.host.own_name.addresses == ()
    assert not second.meeting.joined and second.network.contact is None and second.mesh.rates == ()
    nameless = build([with_host(seen, own_name=Resolution("host0", error="unknown"))]).nodes[0]
    assert nameless.saw("host") and nameless.host.own_name.addresses == ()
