"""host/dns-slow: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import Contact, Resolution
from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, judged, with_host, with_master, with_network

CHECK = "host/dns-slow"


def slow_reverse(*which: int) -> Facts:
    silent = Resolution("10.77.0.10", error="no answer within 4 s", seconds=4.0, timed_out=True)
    return tuple(with_network(one, reverse=silent) if n in which else one for n, one in enumerate(healthy(2)))


def slow_master() -> Facts:
    a, b = healthy(2)
    b = with_master(b, "host0", resolved=["10.77.0.10"])
    return a, with_network(b, master=Resolution("host0", ("10.77.0.10",), seconds=3.1))


ROWS = [
    Row("reverse look-up dead", lambda: slow_reverse(0, 1), BOTH, "warn", together=True),
    Row("master found after 3 s", slow_master, ("host1",), "warn", together=True),
]


def slow_number() -> Facts:
    """An address is looked up without a question to anybody: the machine was busy."""
    a, b = healthy(2)
    return a, with_network(b, master=Resolution("10.77.0.10", ("10.77.0.10",), seconds=1.6))


LOOK_ALIKES = [
    LookAlike("an address, on a busy machine", slow_number),
    LookAlike(
        "a name found after a second",
        lambda: tuple(
            with_network(one, reverse=Resolution("10.77.0.10", ("host0",), seconds=0.9)) for one in healthy(2)
        ),
    ),
    LookAlike(
        "no reverse name",
        lambda: tuple(
            with_network(one, reverse=Resolution("10.77.0.10", error="Name or service not known")) for one in healthy(2)
        ),
    ),
]

CURES = [
    Cure(
        "a line for the reverse look-up",
        lambda: slow_reverse(1),
        {"host1": {"commands": ("echo '::ffff:10.77.0.10 host0-store' >> /etc/hosts",)}},
    ),
    Cure("a line for the master", slow_master, {"host1": {"commands": ("echo '10.77.0.10 host0' >> /etc/hosts",)}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_a_name_server_behind_a_loopback_interface_that_is_down_is_no_failure_of_its_own() -> None:
    a, b = slow_reverse(1)
    assert b.host is not None
    lo, eth0 = b.host.interfaces
    findings = judged(a, with_host(b, interfaces=(replace(lo, up=False), eth0))).findings
    assert [(one.check, one.because_of) for one in findings] == [("host/lo-down", None), (CHECK, "host/lo-down")]


def test_a_name_server_of_a_host_that_drops_what_it_sends_to_itself_is_no_failure_of_its_own() -> None:
    a, b = slow_reverse(1)
    for outcome, cause in (("no-answer", "mesh/peer-ports-blocked"), ("open", None)):
        own = Contact("10.77.0.11", 40001, outcome, None, 1.0)  # type: ignore[arg-type]
        told = {one.check: one.because_of for one in judged(a, with_network(b, own_port=own)).findings}
        assert told[CHECK] == cause
