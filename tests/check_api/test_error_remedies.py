"""Tests of what a rank's own error says of its remedy: nobody compares addresses because of a limit or a name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.check_api.ranks import NAME_LENGTH, fixes_for_error
from distdoctor.model.cluster import Node, build
from distdoctor.model.findings import Fix
from tests.facts_builder import healthy


def first(text: str, *, hostname: str = "host0") -> tuple[Node, tuple[Fix, ...]]:
    one, other = healthy(2)
    one = replace(one, identity=replace(one.identity, hostname=hostname, user="me"))
    node = next(node for node in build((one, other)).nodes if node.identity.hostname == hostname)
    return node, fixes_for_error(node, text)


def test_threads_that_cannot_be_made_are_a_limit() -> None:
    _, fixes = first("RuntimeError: Resource temporarily unavailable")
    assert fixes and "processes" in fixes[0].text and "address" not in str(fixes)


def test_a_host_name_of_64_letters_is_not_asked_for_where_the_interface_is_named() -> None:
    name = "n" * NAME_LENGTH
    _, fixes = first(
        "[enforce fail at device.cc:127] rv != -1. -1 vs -1. gethostname: File name too long", hostname=name
    )
    assert fixes[0].env == {"GLOO_SOCKET_IFNAME": "eth0"}
    assert "a hostname of at most 63 letters" in fixes[-1].text


def test_of_a_shorter_one_it_is_a_path() -> None:
    _, (fix,) = first("OSError: AF_UNIX path too long")
    assert "shorten the path" in fix.text and not fix.env


@pytest.mark.parametrize("text", ["Connection refused", "Connection reset by peer", "timed out connecting"])
def test_what_is_between_nodes_is_left_to_them(text: str) -> None:
    assert first(text)[1] == ()
