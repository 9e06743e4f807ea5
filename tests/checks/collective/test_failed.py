"""collective/failed: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.facts_builder import failing, healthy, judged

CHECK = "collective/failed"


ROWS = [
    Row(
        "collective",
        lambda: (failing(healthy(2)[0], "collective", "Read error"), healthy(2)[1]),
        ("host0",),
        together=True,
    )
]


def starved(**more: object) -> Facts:
    """host1's rank had no processor for most of the stage; host0's waited for it."""
    a, b = healthy(2)
    waited = failing(a, "collective", "ended after 17.0 s: it did not return", killed=True)
    return waited, failing(
        b, "collective", "ended after 17.0 s: it was kept waiting", killed=True, starved=15.2, **more
    )


LOOK_ALIKES = [
    LookAlike(
        "wrong result",
        lambda: (
            failing(healthy(2)[0], "collective", "wrong results: all_reduce", wrong=["all_reduce"]),
            healthy(2)[1],
        ),
        "collective/wrong-result",
    )
]

test_found = found(CHECK, ROWS)


def test_what_failed_for_want_of_a_processor_cannot_be_told() -> None:
    assert [finding.check for finding in judged(*starved()).findings] == ["host/processor-starved"]
    wrong = judged(*starved(wrong=["all_reduce"]))
    assert [finding.check for finding in wrong.roots if finding.severity == "fail"] == ["collective/wrong-result"]


test_left_alone = left_alone(CHECK, LOOK_ALIKES)
