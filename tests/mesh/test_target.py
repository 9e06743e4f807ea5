"""Tests of which addresses of a node are measured, and for whom."""

from __future__ import annotations

from distdoctor.mesh.listener import addresses_of
from distdoctor.model.facts import AddressChoice
from tests.facts_builder import healthy, with_host


def test_what_nccl_takes_is_measured_where_the_job_uses_it() -> None:
    one = with_host(healthy(2)[0], nccl=AddressChoice("10.9.0.5", "eno1", reason="first"))
    assert ("nccl", "10.9.0.5") in [*addresses_of(one, nccl=True)]
    assert "nccl" not in [use for use, _ in addresses_of(one, nccl=False)]


def test_a_link_local_address_is_left_to_nccl_itself() -> None:
    """Two hosts of which one had NCCL_SOCKET_FAMILY=AF_INET6 trained, and the link to fe80:: without an interface was
    told as one that does not work."""
    one = with_host(healthy(2)[0], nccl=AddressChoice("fe80::1", "eth0", reason="first"))
    assert "nccl" not in [use for use, _ in addresses_of(one, nccl=True)]
