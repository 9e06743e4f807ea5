"""host/leftover-processes: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import Answer, Leftover
from tests.checks.row import Facts, LookAlike, Row, first, found, left_alone
from tests.clusters.master import held
from tests.facts_builder import healthy, judged, with_host, with_identity

CHECK = "host/leftover-processes"

OLD = Leftover(4711, "python", "", 7200.0, rank="1")


def left(*ones: Leftover) -> Facts:
    a, b = healthy(2)
    return a, with_host(b, leftovers=ones)


ROWS = [Row("a rank of an earlier run", lambda: left(OLD), ("host1",), "warn", together=True)]

LOOK_ALIKES = [LookAlike("none", left)]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_only_ones_own_processes_get_a_kill_line() -> None:
    mine, theirs = replace(OLD, user="me"), replace(OLD, pid=4712, user="you")
    a, b = left(mine, theirs)
    own, others = first(*(a, with_identity(b, user="me")))
    assert own.commands == ("kill 4711",)
    assert others.commands == () and "you" in others.text


def test_it_is_told_by_itself_beside_what_has_the_port_of_another_host() -> None:
    a, b = held(Answer("foreign", sample="HTTP/1.0 200 OK"))
    assert b.host is not None
    left = Leftover(999, "python", "ann", 7200.0, (), "1")
    assert {(one.check, one.nodes) for one in judged(a, with_host(b, leftovers=(left,))).roots} == {
        ("network/foreign-service", ("host0",)),
        (CHECK, ("host1",)),
    }
