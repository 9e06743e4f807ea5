"""network/port-not-bindable: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Answer
from tests.checks.row import LookAlike, Row, first, found, left_alone
from tests.clusters.master import SSHD, held

CHECK = "network/port-not-bindable"


ROWS = [
    Row("privileged port", lambda: held(None, errno=13), ("host0",)),
    Row("the process that was to host it came to an end", lambda: held(None, errno=0), ("host0",)),
    Row("a sandbox that lets nobody listen", lambda: held(None, errno=1), ("host0",)),
]

LOOK_ALIKES = [LookAlike("in use", lambda: held(Answer("silent"), SSHD), "network/port-in-use")]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_where_listening_is_forbidden_no_other_port_is_advised() -> None:
    for errno in (1, 0, 97):  # forbidden, its process came to an end, no such addresses
        (fix,) = first(*held(None, errno=errno))
        assert not (fix.env or fix.flags or fix.commands), errno
    assert any(fix.env or fix.flags for fix in first(*held(None, errno=13)))
