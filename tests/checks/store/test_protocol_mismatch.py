"""store/protocol-mismatch: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Answer
from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.trust import without_token
from tests.facts_builder import healthy, outside, waited_in_vain, with_meeting, with_network

CHECK = "store/protocol-mismatch"


def of_two() -> Facts:
    a, b = healthy(2)
    b = with_network(outside(b, "open"), answer=Answer("distdoctor", "2.5+"))
    return waited_in_vain(a), with_meeting(b, ours=False, speaks="0.2.0")


def of_three() -> Facts:
    """The third was let in."""
    a, b, c = healthy(3)
    b = with_network(outside(b, "open"), answer=Answer("distdoctor", "2.5+"))
    arrived = tuple(one.key for one in (a, c))
    a = with_meeting(waited_in_vain(a), arrived=arrived, expected=3)
    return a, with_meeting(b, ours=False, speaks="0.2.0"), c


ROWS = [
    Row("another one on one of two", of_two, ("host0", "host1"), blame="one-of"),
    Row("another one on one of three", of_three, ("host1",), together=True),
]

LOOK_ALIKES = [LookAlike("another token", lambda: without_token("different"), "store/token-mismatch")]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
