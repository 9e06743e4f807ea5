"""Tests of whether a second process takes the first, which tells for all, for gone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from distdoctor.model.facts import Contact, HostFacts, Interface, NetworkFacts, NodeFacts, Resolution
from distdoctor.model.plan import Plan
from distdoctor.session.finish import first_process_addresses, first_process_gone
from tests.facts_builder import healthy

FIRST = ("10.77.0.10",)


def second(master: str, address: str, outcome: Any = "refused", first: str = "host0") -> NodeFacts:
    """The facts of task 1 on host1, which got so far at MASTER_ADDR."""
    plan = Plan(started="rank", nnodes=2, rank=1, local_rank=0, master_addr=master, task=1, first=first)
    host = HostFacts(Resolution("host1"), interfaces=(Interface("eth0", ("10.77.0.11",)),))
    contact = Contact(address, 15001, outcome)
    return replace(healthy(2)[1], plan=plan, host=host, network=NetworkFacts(contact=contact))


@pytest.mark.parametrize(
    ("master", "address", "gone"),
    [
        ("host0", "10.77.0.10", True),
        # another address of the same host: its second network, by number or by name
        ("10.88.0.10", "10.88.0.10", True),
        ("host0-ib", "10.88.0.10", True),
        ("ib-host0.cluster", "10.88.0.10", True),
        # the host that srun was typed on, and another one
        ("10.77.0.13", "10.77.0.13", False),
        ("login", "10.88.0.13", False),
        ("127.0.0.1", "127.0.0.1", False),
    ],
)
def test_who_was_refused(monkeypatch: pytest.MonkeyPatch, master: str, address: str, gone: bool) -> None:
    monkeypatch.setenv("SLURM_LAUNCH_NODE_IPADDR", "10.77.0.13")
    assert first_process_gone(second(master, address), FIRST) is gone


def test_where_it_is_is_asked_only_where_that_matters() -> None:
    assert asyncio.run(first_process_addresses(second("login", "10.77.0.13", "timeout"))) == ()
    assert asyncio.run(first_process_addresses(second("login", "10.77.0.13", first=""))) == ()
    assert "127.0.0.1" in asyncio.run(first_process_addresses(second("login", "10.77.0.13", first="localhost")))
