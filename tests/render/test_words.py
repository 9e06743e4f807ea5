"""Folding, counting and cleaning."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distdoctor.model.text import clean
from distdoctor.render.fixes import gathered
from distdoctor.render.words import count, fold, ranks


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([], ""),
        (["host0"], "host0"),
        (["host0", "host1"], "host[0-1]"),
        (["gpu01", "gpu02", "gpu04", "login"], "gpu[01-02,04], login"),
        (["host0.lab", "host1.lab"], "host[0-1].lab"),
        (["a", "b"], "a, b"),
        (["host0", "host0"], "host0"),
        (["@group", "b"], "@group, b"),
        (["a[0-9]", "b"], "a[0-9], b"),
        (["a,b", "c!d"], "a,b, c!d"),
    ],
)
def test_fold(names: list[str], folded: str) -> None:
    assert fold(names) == folded


@settings(deadline=None)  # the first one imports ClusterShell
@given(st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{0,3}(-[0-9]{1,2})?", fullmatch=True), min_size=1, max_size=12))
def test_folded_names_unfold_to_the_same(names: list[str]) -> None:
    from ClusterShell.NodeSet import NodeSet

    assert set(NodeSet(fold(names).replace(", ", ","))) == set(names)


@given(st.text())
def test_clean_text_is_one_line_and_inert(text: str) -> None:
    cleaned = clean(text)
    assert len(cleaned.splitlines()) <= 1
    assert "\x1b" not in cleaned
    cleaned.encode()


@pytest.mark.parametrize(
    ("numbers", "text"), [([3], "rank 3"), ([0, 1, 2, 3, 6], "ranks 0-3,6"), ([1, 1], "rank 1"), ([5, 4], "ranks 4-5")]
)
def test_ranks(numbers: list[int], text: str) -> None:
    assert ranks(numbers) == text


def test_count() -> None:
    assert (count(1, "node"), count(2, "node")) == ("1 node", "2 nodes")


class TestEvidence:
    def test_a_command_is_that_of_the_first_so_that_it_can_be_pasted(self) -> None:
        lines = [f"h{n}: make `ssh -o BatchMode=yes h{n} true` work, of h{n}" for n in range(3)]
        (told,) = gathered(lines, ["h0", "h1", "h2"])
        assert told == "h[0-2]: make `ssh -o BatchMode=yes h0 true` (the others alike) work, of h[0-2]"
        assert gathered(lines[:1], ["h0"]) == lines[:1]

    def test_equal_lines_are_gathered_and_the_minority_comes_first(self) -> None:
        lines = ["h0: uses eth0", "h1: uses eth0", "h2: uses docker0", "the store answers"]
        assert gathered(lines, ["h0", "h1", "h2"]) == [
            "the store answers",
            "h2 (1 of 3 nodes): uses docker0",
            "h[0-1] (2 of 3 nodes): uses eth0",
        ]

    def test_ranks_of_several_nodes_that_say_the_same(self) -> None:
        assert gathered(["h0 rank 0: refused", "h1 rank 2: refused"], ["h0", "h1"]) == ["h[0-1] ranks 0,2: refused"]

    def test_lines_that_differ_stay_as_they_are_and_in_order(self) -> None:
        lines = ["h1: b", "h0: a"]
        assert gathered(lines, ["h0", "h1"]) == lines

    def test_own_names_do_not_make_a_difference(self) -> None:
        lines = ["h0: its name h0 means 127.0.1.1", "h1: its name h1 means 127.0.1.1"]
        assert gathered(lines, ["h0", "h1"]) == ["h[0-1]: its name h[0-1] means 127.0.1.1"]

    def test_a_prefix_that_is_no_node_is_text(self) -> None:
        assert gathered(["errno: 111"], ["h0"]) == ["errno: 111"]
