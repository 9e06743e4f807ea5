"""network/foreign-service: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Answer
from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.master import SSHD, held
from tests.facts_builder import judged

CHECK = "network/foreign-service"


ROWS = [
    Row("foreign service", lambda: held(Answer("foreign", sample="SSH-2.0"), SSHD), ("host0",)),
    Row("closed at once", lambda: held(Answer("closed")), ("host0",)),
]

LOOK_ALIKES = [LookAlike("another job's store", lambda: held(Answer("tcpstore", "2.5+")), "store/foreign-store")]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_of_what_answers_on_the_port_the_first_line_is_told() -> None:
    """In the sample, line ends are spaces."""
    answer = Answer(
        "foreign", sample="HTTP/1.0 200 OK  Server: SimpleHTTP/0.6 Python/3.11.7  Date: Sat, 21 Nov 2026 18"
    )
    (root,) = judged(*held(answer, SSHD)).roots
    assert root.summary == "A service that is not a store answers: 'HTTP/1.0 200 OK' on port 29500 of host0."


def test_what_begins_as_grpc_does_is_called_so() -> None:
    for sample, told in (("00 00 12 04", "HTTP/2"), ("00 00 12 06", "'00 00 12 06'")):
        (root,) = judged(*held(Answer("foreign", sample=sample), SSHD)).roots
        assert told in root.summary and ("gRPC" in root.summary) is (told == "HTTP/2")
