"""NCCL's own rules: which interface its bootstrap and its socket transport take."""

from __future__ import annotations

import pytest

from distdoctor.knowledge.nccl import matches, predict
from distdoctor.model.facts import AddressChoice, Interface

LO = Interface("lo", ("127.0.0.1", "::1"), (8, 128), loopback=True)
DOCKER = Interface("docker0", ("172.17.0.1",), (16,))
VIRBR = Interface("virbr0", ("192.168.122.1",), (24,))
ETH0 = Interface("eth0", ("10.0.0.5", "fd00::5"), (24, 64))
ETH1 = Interface("eth1", ("10.1.0.5",), (24,))
IB = Interface("ib0", ("10.2.0.5",), (24,))
DOWN = Interface("eth9", ("10.9.0.5",), (24,), up=False)
BARE = Interface("eth8")
ALL = (LO, DOCKER, VIRBR, DOWN, BARE, ETH0, ETH1, IB)


@pytest.mark.parametrize(
    ("interfaces", "expected"),
    [
        (ALL, AddressChoice("10.2.0.5", "ib0", "order")),
        ((LO, DOCKER, ETH0), AddressChoice("10.0.0.5", "eth0", "order")),
        ((LO, DOCKER, VIRBR), AddressChoice("172.17.0.1", "docker0", "order")),
        ((VIRBR, LO), AddressChoice("127.0.0.1", "lo", "order")),
        ((VIRBR,), AddressChoice("192.168.122.1", "virbr0", "order")),
        ((DOWN, LO), AddressChoice("127.0.0.1", "lo", "order")),
        ((BARE,), AddressChoice(None, None, "not-found")),
        ((Interface("lo", ("::1",), (128,), loopback=True),), AddressChoice(None, None, "not-found")),
    ],
)
def test_without_variables_the_order_decides(interfaces: tuple[Interface, ...], expected: AddressChoice) -> None:
    assert predict({}, interfaces) == expected


@pytest.mark.parametrize(
    ("variable", "address", "name"),
    [
        ("eth1", "10.1.0.5", "eth1"),
        ("eth", "10.0.0.5", "eth0"),
        ("=eth1", "10.1.0.5", "eth1"),
        ("=eth", None, None),
        ("^docker,lo,virbr,eth", "10.2.0.5", "ib0"),
        ("^=docker0,lo,virbr0,eth0", "10.1.0.5", "eth1"),
        ("ens,eth1", "10.1.0.5", "eth1"),
        ("eth1:1", "10.1.0.5", "eth1"),
        ("lo", "127.0.0.1", "lo"),
        ("eth9", None, None),
        ("bond0", None, None),
    ],
)
def test_nccl_socket_ifname(variable: str, address: str | None, name: str | None) -> None:
    reason = "variable" if address else "not-found"
    assert predict({"NCCL_SOCKET_IFNAME": variable}, ALL) == AddressChoice(address, name, reason, variable)


@pytest.mark.parametrize("variable", ["", "e"])
def test_a_value_of_less_than_two_characters_is_ignored(variable: str) -> None:
    assert predict({"NCCL_SOCKET_IFNAME": variable}, ALL).reason == "order"


@pytest.mark.parametrize(
    ("family", "address"), [("AF_INET6", "fd00::5"), ("AF_INET", "10.0.0.5"), ("inet6", "10.0.0.5"), ("", "10.0.0.5")]
)
def test_nccl_socket_family(family: str, address: str) -> None:
    assert predict({"NCCL_SOCKET_FAMILY": family}, (LO, ETH0)).address == address


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("eth", "eth0", True),
        ("=eth", "eth0", False),
        ("=eth0", "eth0", True),
        ("^eth", "eth0", False),
        ("^eth", "ib0", True),
        ("^=eth", "eth0", True),
        ("ib,eth", "eth0", True),
        (",,eth0", "eth0", True),
        ("^docker,lo", "lo", False),
    ],
)
def test_the_pattern_language(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected
