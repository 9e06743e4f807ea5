"""host/leftover-processes: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import Leftover
from tests.checks.row import Facts, LookAlike, Row, first, found, left_alone
from tests.facts_builder import healthy, with_host, with_identity

CHECK = "host/leftover-processes"

OLD = Leftover(4711, "python", "", 7200.0, rank="1")


def left(*ones: Leftover) -> Facts:
    a, b = healthy(2)
    return a, with_host(b, leftovers=ones)


ROWS = [
    Row("a rank of an earlier run", lambda: left(OLD), ("host1",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("none", left),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_only_ones_own_processes_get_a_kill_line() -> None:
    mine, theirs = replace(OLD, user="me"), replace(OLD, pid=4712, user="you")
    a, b = left(mine, theirs)
    own, others = first(*(a, with_identity(b, user="me")))
    assert own.commands == ("kill 4711",)
    assert others.commands == () and "you" in others.text
