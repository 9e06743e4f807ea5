"""host/ports-exhaustible: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.limits import on, roots_and_fixes_when_told
from tests.facts_builder import failing, judged, outside, waited_in_vain

CHECK = "host/ports-exhaustible"


def no_ports() -> Facts:
    a, b = on((1,), port_range=(50000, 50007))
    return failing(a, "gloo", "Connection closed"), failing(b, "gloo", "connect: Cannot assign requested address")


def reserved(ports: str) -> Facts:
    """The range is Linux's own, and these ports are kept back."""
    return on((1,), port_range=(32768, 60999), reserved_ports=ports)


def each_its_own() -> Facts:
    """One has a narrow range, of the other nearly all is kept back."""
    a, _ = on((0,), port_range=(50000, 50003))
    return a, reserved("30000-61000")[1]


ROWS = [
    Row("4 ports", lambda: on((1,), port_range=(50000, 50003)), ("host1",), together=True),
    Row("8 ports, and none left", no_ports, ("host1",), together=True),
    Row("20 ports", lambda: on((0, 1), port_range=(50000, 50019)), BOTH, "warn", together=True),
]

ROWS += [
    Row("all but 8 are reserved", lambda: reserved("80,32768-60990,60992"), ("host1",), "warn", together=True),
    Row("all are reserved", lambda: reserved("30000-61000"), ("host1",), together=True),
]

LOOK_ALIKES = [
    LookAlike("some are reserved", lambda: reserved("29500-29510,40000-40010")),
    LookAlike("usual limits, 8 nodes", lambda: on((), of=8)),
]

CURES = [
    Cure(
        "ports beyond those that are reserved",
        lambda: reserved("32768-60990"),
        {"host1": {"commands": ('sysctl -w net.ipv4.ip_local_port_range="32768 65535"',)}},
    ),
    Cure(
        "and beyond all above it, where MASTER_PORT is",
        lambda: reserved("80,30000-65530"),
        {
            "host1": {
                "commands": (
                    'sysctl -w net.ipv4.ip_local_port_range="10000 65535" '
                    "net.ipv4.ip_local_reserved_ports=80,30000-65530,29500",
                )
            }
        },
    ),
    Cure("fewer are reserved, where that leaves none", lambda: reserved("1024-65530"), {"host1": {}}),
    Cure(
        "each node what it lacks",
        each_its_own,
        {
            "host0": {"commands": ('sysctl -w net.ipv4.ip_local_port_range="32768 60999"',)},
            "host1": {"commands": ('sysctl -w net.ipv4.ip_local_port_range="32768 65535"',)},
        },
    ),
    Cure(
        "the wide range", no_ports, {"host1": {"commands": ('sysctl -w net.ipv4.ip_local_port_range="32768 60999"',)}}
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_an_address_that_a_host_lacks_is_no_lack_of_ports() -> None:
    checks, fixes = roots_and_fixes_when_told("bind: Cannot assign requested address", port_range=(32768, 60999))
    assert checks == ["gloo/init-failed"] and "ip_local_port_range" not in fixes
    checks, fixes = roots_and_fixes_when_told("connect: Cannot assign requested address", port_range=(32768, 60999))
    assert checks == [CHECK] and "ip_local_port_range" in fixes


def test_that_no_port_is_left_is_no_missing_way_to_the_master() -> None:
    """connect() gives EADDRNOTAVAIL then."""
    a, b = reserved("32768-60999")
    b = outside(b, "error", errno=99)
    found = {one.check: one.because_of for one in judged(waited_in_vain(a), b).findings}
    assert found[CHECK] is None and found["network/master-unreachable"] == CHECK
