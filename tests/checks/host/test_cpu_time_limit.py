"""host/cpu-time-limit: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import Cure, LookAlike, Row, cured, found, left_alone
from tests.clusters.limits import on

CHECK = "host/cpu-time-limit"

ROWS = [Row("15 minutes of a login node", lambda: on((1,), cpu_seconds=900), ("host1",), "warn", together=True)]

LOOK_ALIKES = [
    LookAlike("none", lambda: on((1,), cpu_seconds=None)),
    LookAlike("a week", lambda: on((1,), cpu_seconds=7 * 86_400)),
]

CURES = [Cure("none", lambda: on((1,), cpu_seconds=900), {"host1": {"commands": ("ulimit -t unlimited",)}}, only=True)]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
