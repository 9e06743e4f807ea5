"""host/tmpdir-too-long: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import TemporaryFolder
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, with_host

CHECK = "host/tmpdir-too-long"


def temporary(path: str) -> Facts:
    """Temporary files go there on node 1."""
    first, second = healthy(2)
    return first, with_host(second, temporary=TemporaryFolder(path))


ROWS = [
    Row("76 bytes", lambda: temporary("/" + "x" * 75), ("host1",), "warn", together=True),
    Row("fewer letters than bytes", lambda: temporary("/" + "ß" * 38), ("host1",), "warn", together=True),
]

LOOK_ALIKES = [LookAlike("75 bytes", lambda: temporary("/" + "x" * 74)), LookAlike("not looked at", lambda: healthy(2))]

CURES = [Cure("a short one", lambda: temporary("/" + "x" * 90), {"host1": {"env": {"TMPDIR": "/tmp"}}})]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
