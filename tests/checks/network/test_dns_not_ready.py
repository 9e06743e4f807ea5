"""network/dns-not-ready: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import HostsLine
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, with_master, with_network

CHECK = "network/dns-not-ready"


def late_name() -> Facts:
    a, b = healthy(2)
    a = with_master(a, "job-0", own=True, resolved=["10.77.0.10"])
    return a, with_network(with_master(b, "job-0", resolved=["10.77.0.10"]), resolved_after=6.2)


def written_by_now() -> Facts:
    a, b = late_name()
    line = HostsLine(3, "10.77.0.10 job-0")
    return a, with_network(b, master_lines=(line,))


ROWS = [Row("late name", late_name, ("host1",), "warn", together=True)]

LOOK_ALIKES = [
    LookAlike("name found after a second", lambda: tuple(with_network(one, resolved_after=1.2) for one in healthy(2)))
]

CURES = [
    Cure("late name", late_name, {"host1": {"commands": ("echo '10.77.0.10 job-0' >> /etc/hosts",)}}),
    Cure(
        "what writes the line is late",
        written_by_now,
        {"host1": {"commands": ("until getent hosts job-0; do sleep 1; done",)}},
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
