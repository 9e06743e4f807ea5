"""The figures of all links: each node's row comes to one matrix, small for however many nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.judge.report import link_matrix
from distdoctor.mesh.listener import LinkTarget
from distdoctor.mesh.measurement import row
from distdoctor.model.bounds import check_facts
from distdoctor.model.cluster import build
from distdoctor.model.facts import ROW_MOST, BadFacts, LinkRow, MeshFacts, decode, encode
from tests.clusters.link_rows import usual, with_rows
from tests.facts_builder import healthy


def test_each_pair_has_its_figures() -> None:
    facts = with_rows(3, lambda source, to: None if (source, to) == (2, 0) else (source + to / 10, 1e8 + to, source))
    found = link_matrix(build(facts))
    assert found == {
        "names": [["host0"], ["host1"], ["host2"]],
        "rtt": [[None, 0.1, 0.2], [1.0, None, 1.2], [None, 2.1, None]],
        "rates": [[None, 1e8 + 1, 1e8 + 2], [1e8, None, 1e8 + 2], [None, 1e8 + 1, None]],
        "lost": [[None, 0.0, 0.0], [0.01, None, 0.01], [None, 0.02, None]],
        "bad": [[0, 0, 0], [0, 0, 0], [1, 0, 0]],
    }


def test_nodes_stand_by_their_names_however_they_came() -> None:
    targets = [LinkTarget(n, f"{name} 1 net", f"10.0.0.{n}", 1, ()) for n, name in enumerate(("gpu10", "gpu9", "cpu"))]
    places = {name: row(n, targets, ()) for n, name in enumerate(("gpu10", "gpu9", "cpu"))}
    assert {name: one and one.place for name, one in places.items()} == {"cpu": 0, "gpu9": 1, "gpu10": 2}
    two_addresses = [*targets, LinkTarget(0, "gpu10 1 net", "10.1.0.0", 1, ("nccl",))]
    assert row(1, two_addresses, ()) == row(1, targets, ())


@pytest.mark.parametrize("count", [64, 65, 128, 1000, 1024, 100_000])
def test_a_row_is_as_short_for_however_many_nodes(count: int) -> None:
    frame = LinkRow(0, count)
    assert ROW_MOST / 2 <= frame.entries <= ROW_MOST and frame.entry(count - 1) == frame.entries - 1


def test_of_many_nodes_neighbours_share_an_entry_with_the_worst_of_theirs() -> None:
    count, links = 100, usual()

    def link(source: int, to: int) -> tuple[float, float, int] | None:
        seconds, rate, again = links(source, to)
        return None if (source, to) == (1, count - 1) else (0.5 if (source, to) == (0, 64) else seconds, rate, again)

    facts = with_rows(count, link)
    found = link_matrix(build(facts))
    assert found is not None
    assert sum(map(len, found["names"])) == count and len(found["names"]) == 50
    assert found["rtt"][0][32] == 0.5 and max(map(max, found["rtt"])) == 0.5
    assert found["bad"][0][-1] == 1 and sum(map(sum, found["bad"])) == 1
    assert max(len(encode(one.mesh and one.mesh.row)) for one in facts) < 2000


def test_facts_without_figures_have_no_matrix_and_what_does_not_fit_is_left_out() -> None:
    assert link_matrix(build(healthy(3))) is None
    facts = with_rows(3, usual())
    mesh = replace(facts[1].mesh or MeshFacts(), row=LinkRow(900, 1000, (0.1,) * 63))
    found = link_matrix(build((facts[0], replace(facts[1], mesh=mesh), facts[2])))
    assert found is not None and found["names"] == [["host0"], [], ["host2"]]


@pytest.mark.parametrize(
    "wrong",
    [LinkRow(3, 3), LinkRow(-1, 3), LinkRow(0, 1), LinkRow(0, 3, (0.1,)), LinkRow(0, 3, (-1.0, 0.1, 0.1)),
     LinkRow(0, 10**9), LinkRow(0, 3, (), (float("inf"),) * 3)],
    ids=str,
)  # fmt: skip
def test_a_row_that_nobody_can_have_measured_is_refused(wrong: LinkRow) -> None:
    one = healthy(3)[0]
    check_facts(replace(one, mesh=MeshFacts(2, row=LinkRow(0, 3, (None, 0.1, 0.2)))))
    with pytest.raises(BadFacts):
        check_facts(replace(one, mesh=MeshFacts(2, row=wrong)))


def test_facts_of_before_are_read() -> None:
    assert decode(b'{"good": 2}', MeshFacts).row is None
