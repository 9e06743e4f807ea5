"""The ports that a packet filter lets in."""

from __future__ import annotations

from distdoctor.knowledge.firewall.packet import open_ranges


def test_what_is_not_shut_is_open() -> None:
    def shuts(port: int) -> bool:
        return not (port == 22 or 20000 <= port <= 30000)

    assert open_ranges("dport 22, 20000-30000, 10.77.0.10", shuts) == ((22, 22), (20000, 30000))


def test_all_are_open_or_shut_where_no_number_is_named() -> None:
    assert open_ranges("policy accept", lambda port: False) == ((1, 65535),)
    assert open_ranges("policy drop", lambda port: True) == ()


def test_a_ruleset_of_a_thousand_numbers_is_not_walked() -> None:
    assert open_ranges(" ".join(map(str, range(2, 1002))), lambda port: port > 500) == ()
