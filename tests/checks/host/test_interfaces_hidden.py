"""host/interfaces-hidden: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, with_host

CHECK = "host/interfaces-hidden"


def hidden(*errors: str) -> Facts:
    return tuple(with_host(node, interfaces_hidden=error) for node, error in zip(healthy(2), errors, strict=True))


ROWS = [
    Row("a unit without AF_NETLINK", lambda: hidden("", "EAFNOSUPPORT"), ("host1",), together=True),
    Row("a profile that forbids it, on both", lambda: hidden("EPERM", "EPERM"), ("host0", "host1"), together=True),
]

LOOK_ALIKES = [LookAlike("interfaces are listed", lambda: hidden("", ""))]

CURES = [Cure("by hand", lambda: hidden("", "EAFNOSUPPORT"), {"host1": {}})]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
