"""The addresses that a packet filter lets in."""

from __future__ import annotations

import ipaddress

from distdoctor.knowledge.firewall.packet import open_sources


def within(*networks: str, version: int = 4) -> tuple[tuple[str, str], ...]:
    """Return what is said of a ruleset that names these networks and lets them in."""
    known = [ipaddress.ip_network(one) for one in networks]
    text = " ".join(f"-A INPUT -s {one} -j ACCEPT" for one in networks)
    return open_sources(text, version, lambda at: any(ipaddress.ip_address(at) in one for one in known))


def test_the_networks_that_are_let_in() -> None:
    assert within("10.77.0.0/24", "10.88.0.7") == (("10.77.0.0", "10.77.0.255"), ("10.88.0.7", "10.88.0.7"))
    assert within("10.77.0.0/24", "10.77.1.0/24") == (("10.77.0.0", "10.77.1.255"),)
    assert within("fd77::/64", version=6) == (("fd77::", "fd77::ffff:ffff:ffff:ffff"),)
    assert within("10.77.0.0/24", version=6) == ()


def test_the_whole_range_and_its_ends() -> None:
    assert open_sources("", 4, lambda at: True) == (("0.0.0.0", "255.255.255.255"),)
    assert within("255.255.255.255/32", "0.0.0.0/32") == (("0.0.0.0", "0.0.0.0"), ("255.255.255.255",) * 2)


def test_a_network_as_json_of_nft_has_it() -> None:
    text = '{"prefix": {"addr": "10.77.0.0", "len": 24}}, "02:00:00:00:00:01", "1.0.6"'
    assert open_sources(text, 4, lambda at: at == "10.77.0.0") == (("10.77.0.0", "10.77.0.255"),)


def test_a_ruleset_of_a_thousand_addresses_is_not_walked() -> None:
    assert within(*(f"10.{one}.0.0/24" for one in range(200))) == ()
