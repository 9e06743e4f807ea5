"""nccl/interface-not-found: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.knowledge.nccl import NEWEST, Version, predict, version
from distdoctor.model.facts import Interface
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, judged, with_gpus, with_host, with_identity, with_plan

CHECK = "nccl/interface-not-found"
UNPLUGGED = Interface("eno1", ("10.9.0.5",), (24,), up=False)
Variables = dict[str, str]


def named(*values: str, nccl: Version = NEWEST, backend: str = "nccl") -> Facts:
    """NCCL_SOCKET_IFNAME on each node, which has lo, eth0 and an eno1 without a cable."""
    facts = []
    for one, value in zip(healthy(len(values)), values, strict=True):
        one = with_plan(with_gpus(one, 2), backend=backend)
        assert one.host is not None
        interfaces, env = (*one.host.interfaces, UNPLUGGED), {"NCCL_SOCKET_IFNAME": value}
        one = with_host(replace(one, variables=env), interfaces=interfaces, nccl=predict(env, interfaces, nccl))
        facts.append(with_identity(one, nccl=".".join(map(str, nccl)) if nccl is not NEWEST else None))
    return tuple(facts)


ROWS = [
    Row("another host's name", lambda: named("eth0", "ens3"), ("host1",), together=True),
    Row("a blank in the list", lambda: named("eth0", "ib0, eth0"), ("host1",), together=True),
    Row("a prefix asked for exactly", lambda: named("eth0", "=eth"), ("host1",), together=True),
    Row("no cable, from 2.28 on", lambda: named("eth0", "eno1", nccl=(2, 28)), ("host1",), together=True),
    Row("one node", lambda: named("ens3"), ("host0",)),
]

LOOK_ALIKES = [
    LookAlike("a prefix", lambda: named("eth", "eth")),
    LookAlike("a job on gloo", lambda: named("eth0", "ens3", backend="gloo")),
]

CURES = [Cure("interface", lambda: named("eth0", "ens3"), {"host1": {"env": {"NCCL_SOCKET_IFNAME": "eth0"}}})]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_an_older_nccl_takes_an_interface_without_a_cable() -> None:
    facts = named("eth0", "eno1", nccl=version("2.27.5"))
    assert facts[1].host is not None and facts[1].host.nccl is not None
    assert facts[1].host.nccl.interface == "eno1"
    assert CHECK not in [finding.check for finding in judged(*facts).findings]
