"""gloo's own rules: the address it advertises, and which side of a pair connects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distdoctor.knowledge.gloo import initiates, predict
from distdoctor.model.addresses import parse_address
from distdoctor.model.facts import AddressChoice, Interface, Resolution

INTERFACES = (
    Interface("lo", ("127.0.0.1", "::1"), (8, 128), loopback=True),
    Interface("eth0", ("10.0.0.5", "fe80::1"), (24, 64)),
    Interface("docker0", ("172.17.0.1",), (16,)),
    Interface("ib0"),
)
OWN = {"127.0.0.1", "127.0.1.1", "::1", "10.0.0.5", "172.17.0.1"}


def choice(name: str | None, *addresses: str) -> AddressChoice:
    variables = {} if name is None else {"GLOO_SOCKET_IFNAME": name}
    return predict(variables, Resolution("host", addresses), INTERFACES, OWN.__contains__)


@pytest.mark.parametrize(
    ("variable", "addresses", "expected"),
    [
        ("eth0", ("127.0.1.1",), AddressChoice("10.0.0.5", "eth0", "variable", "eth0")),
        ("docker0,eth0", (), AddressChoice("172.17.0.1", "docker0", "variable", "docker0,eth0")),
        ("lo", ("10.0.0.5",), AddressChoice("127.0.0.1", "lo", "variable", "lo")),
        ("ib0", ("10.0.0.5",), AddressChoice(None, None, "not-found", "ib0")),
        ("eth", ("10.0.0.5",), AddressChoice(None, None, "not-found", "eth")),
        ("^docker0", ("10.0.0.5",), AddressChoice(None, None, "not-found", "^docker0")),
        ("x", ("10.0.0.5",), AddressChoice("10.0.0.5", "eth0", "hostname")),
        ("", ("10.0.0.5",), AddressChoice("10.0.0.5", "eth0", "hostname")),
        (None, ("10.0.0.5",), AddressChoice("10.0.0.5", "eth0", "hostname")),
        (None, ("127.0.1.1", "10.0.0.5"), AddressChoice("127.0.1.1", "lo", "hostname")),
        (None, ("10.0.0.99", "10.0.0.5"), AddressChoice("10.0.0.5", "eth0", "hostname")),
        (None, ("10.0.0.99",), AddressChoice("127.0.0.1", "lo", "fallback")),
        (None, (), AddressChoice("127.0.0.1", "lo", "fallback")),
    ],
)
def test_the_address_advertised(variable: str | None, addresses: tuple[str, ...], expected: AddressChoice) -> None:
    assert choice(variable, *addresses) == expected


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        ("127.0.1.1", "10.0.0.5", True),
        ("10.0.0.5", "127.0.1.1", False),
        ("127.0.1.1", "192.168.0.1", False),
        ("10.0.0.10", "10.0.0.9", True),
        ("10.0.0.5", "10.0.0.5", False),
        ("fd00::1", "192.168.0.1", True),
        ("::1", "fd00::1", False),
        ("::ffff:10.0.0.5", "10.0.0.4", True),
    ],
)
def test_the_larger_address_connects(mine: str, theirs: str, expected: bool) -> None:
    assert initiates(mine, theirs) is expected


addresses = st.ip_addresses().map(str)


@given(addresses, addresses)
def test_of_two_addresses_exactly_one_connects(a: str, b: str) -> None:
    """Unless they are the same, as numbers."""
    assert (initiates(a, b), initiates(b, a)).count(True) == (0 if parse_address(a) == parse_address(b) else 1)


@given(addresses, addresses, addresses)
def test_the_order_has_no_circles(a: str, b: str, c: str) -> None:
    assert not (initiates(a, b) and initiates(b, c) and initiates(c, a))
