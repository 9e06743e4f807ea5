"""Rows about settings that all nodes must have alike, and about those that they need not."""

# ruff: noqa: E501 - a row is a line, however long

from __future__ import annotations

from dataclasses import replace

from distdoctor.knowledge import gloo
from distdoctor.model.facts import Interface, Link, MeshFacts, NodeFacts
from tests.checks.row import Facts, Row
from tests.facts_builder import failing, healthy, with_gpus, with_host

BOTH = ("host0", "host1")
MISMATCH = "environment/setting-mismatch"
DEBUG, BARRIER, IFNAME = "TORCH_DISTRIBUTED_DEBUG", "TORCH_DIST_INIT_BARRIER", "GLOO_SOCKET_IFNAME"


def set_on(name: str, *values: str | None, gpus: int = 0, failed: bool = False) -> Facts:
    """The variable on each node (None: not set); ``failed``: gloo then failed, too."""
    facts = []
    for one, value in zip(healthy(len(values)), values, strict=True):
        one = with_gpus(one, gpus) if gpus else one
        one = replace(one, variables={**one.variables, name: value}) if value is not None else one
        facts.append(failing(one, "gloo", "ended after 8 s: it did not return", killed=True) if failed else one)
    return tuple(facts)


def interfaces(*values: str | None, shared: bool = True) -> Facts:
    """GLOO_SOCKET_IFNAME on each node, which has eth0 and, where the value names it, eth1."""
    facts: list[NodeFacts] = []
    for number, (one, value) in enumerate(zip(healthy(len(values)), values, strict=True)):
        assert one.host is not None
        network = "10.99.0" if shared else f"10.{90 + number}.0"
        second = Interface("eth1", (f"{network}.{10 + number}",), (24,), mtu=1500)
        ours = (*one.host.interfaces, second) if "eth1" in (value or "") else one.host.interfaces
        given = {IFNAME: value} if value else {}
        choice = gloo.predict(given, one.host.own_name, ours, lambda address: True)
        one = replace(one, variables=given)
        facts.append(with_host(one, interfaces=ours, gloo=choice, gloo_more=gloo.further(given, ours)))
    return tuple(facts)


def second_leads_nowhere() -> Facts:
    a, b = interfaces("eth0,eth1", "eth0,eth1", shared=False)
    back = Link(a.key, "10.90.0.10", 40000, ("gloo",), "unreachable", 101)
    there = Link(b.key, "10.91.0.11", 40001, ("gloo",), "unreachable", 101)
    return replace(a, mesh=MeshFacts(good=1, bad=(there,))), replace(b, mesh=MeshFacts(good=1, bad=(back,)))


ROWS = [
    Row("DETAIL on one", lambda: set_on(DEBUG, None, "DETAIL"), MISMATCH, BOTH, blame="one-of", together=True),
    Row("detail on one of three", lambda: set_on(DEBUG, None, "INFO", "detail"), MISMATCH, ("host2",), together=True),
    Row("DETAIL on one, nccl", lambda: set_on(DEBUG, "DETAIL", None, None, gpus=2), MISMATCH, ("host0",), together=True),
    Row("a barrier after init on one", lambda: set_on(BARRIER, None, "1", None), MISMATCH, ("host1",), together=True),
    Row("ranks as numbers on one, and gloo failed", lambda: set_on("GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER", None, "1", None, failed=True), MISMATCH, ("host1",), together=True),
    Row("ranks as numbers on one", lambda: set_on("GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER", None, "1", None), MISMATCH, ("host1",), "warn", together=True),
    Row("TLS on one", lambda: set_on("GLOO_DEVICE_TRANSPORT", None, "TCP_TLS", "TCP", failed=True), MISMATCH, ("host1",), together=True),
    Row("two interfaces on one", lambda: interfaces("eth0", "eth0,eth1"), MISMATCH, BOTH, blame="one-of", together=True),
    Row("two interfaces on two of three", lambda: interfaces("eth0,eth1", "eth1,eth0", None), MISMATCH, ("host2",), together=True),
    Row("the second interface is missing", lambda: interfaces("eth0", "eth0,eth7"), "gloo/interface-not-found", ("host1",), together=True),
    Row("the second of two on each is missing", lambda: interfaces("eth0,eth1", "eth0,eth7"), "gloo/interface-not-found", ("host1",), together=True),
    Row("a space in the list", lambda: interfaces("eth0,eth1", "eth0, eth1"), "gloo/interface-not-found", ("host1",), together=True),
    Row("the second interface leads nowhere", second_leads_nowhere, "gloo/interface-unreachable", BOTH, together=True),
    Row("the second interface is loopback", lambda: interfaces("eth0,lo", "eth0,lo"), "gloo/loopback-address", BOTH, together=True),
]  # fmt: skip

HEALTHY: dict[str, Facts] = {
    "INFO on one": set_on(DEBUG, "INFO", None),
    "DETAIL everywhere, spelled differently": set_on(DEBUG, "DETAIL", "detail"),
    "a barrier that is not made": set_on(BARRIER, "0", None),
    "lazy said not to be": set_on("TORCH_GLOO_LAZY_INIT", "0", None),
    "lazy, spelled differently": set_on("TORCH_GLOO_LAZY_INIT", "1", "true"),
    "the usual transport named on one": set_on("GLOO_DEVICE_TRANSPORT", "TCP", None),
    "no connection retries on one": set_on("GLOO_DISABLE_CONNECTION_RETRIES", "1", None),
    "another store API on one": set_on("GLOO_ENABLE_STORE_V2_API", "1", None),
    "a timeout of NCCL's watchdog on one": set_on("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "60", None, gpus=2),
    "checks of NCCL on one": set_on("NCCL_CHECK_POINTERS", "1", None, gpus=2),
    "two interfaces on both": interfaces("eth0,eth1", "eth1,eth0"),
    "a comma at the end": interfaces("eth0,", "eth0"),
    "the usual interface named on one": interfaces("eth0", None),
}
