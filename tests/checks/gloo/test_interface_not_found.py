"""gloo/interface-not-found: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import AddressChoice, Resolution
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.interfaces import interfaces
from tests.facts_builder import failing, healthy, judged, with_host

CHECK = "gloo/interface-not-found"


def not_found(value: str = "ib0") -> Facts:
    a, b = healthy(2)
    b = with_host(b, gloo=AddressChoice(None, None, "not-found", value))
    return failing(a, "gloo", "ended", killed=True), failing(b, "gloo", f"Unable to find address for: {value}")


def not_found_and_loopback_name() -> Facts:
    a, b = not_found()
    return a, with_host(b, own_name=Resolution("host1", ("127.0.1.1",)))


ROWS = [
    Row("no such interface", not_found, ("host1",), together=True),
    Row("no such interface, 127.0.1.1", not_found_and_loopback_name, ("host1",), together=True),
    Row("the second interface is missing", lambda: interfaces("eth0", "eth0,eth7"), ("host1",), together=True),
    Row(
        "the second of two on each is missing", lambda: interfaces("eth0,eth1", "eth0,eth7"), ("host1",), together=True
    ),
    Row("a space in the list", lambda: interfaces("eth0,eth1", "eth0, eth1"), ("host1",), together=True),
]

LOOK_ALIKES = [LookAlike("a comma at the end", lambda: interfaces("eth0,", "eth0"))]

CURES = [Cure("interface", not_found, {"host1": {"env": {"GLOO_SOCKET_IFNAME": "eth0"}}})]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_nccls_syntax_is_told() -> None:
    (root,) = judged(*not_found("^docker0")).roots
    assert any("NCCL_SOCKET_IFNAME's syntax" in line for line in root.evidence)
    assert [(f.option, f.env) for f in root.fixes] == [
        (1, {"GLOO_SOCKET_IFNAME": "eth0"}),
        (2, {"GLOO_SOCKET_IFNAME": None}),
    ]


def test_what_cannot_be_seen_in_a_name_is_shown() -> None:
    """A script with Windows' line ends sets it."""
    (root,) = judged(*not_found("eth0\r")).roots
    assert root.summary.startswith("GLOO_SOCKET_IFNAME='eth0\\r' names no interface")
    assert root.fixes[0].env == {"GLOO_SOCKET_IFNAME": "eth0"}


def test_unsetting_is_no_remedy_where_the_name_means_loopback() -> None:
    (root,) = judged(*not_found_and_loopback_name()).roots
    assert {f.option for f in root.fixes} == {1}
