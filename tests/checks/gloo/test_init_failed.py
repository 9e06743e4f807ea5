"""gloo/init-failed: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.links import cut
from tests.facts_builder import failing, healthy, judged

CHECK = "gloo/init-failed"


ROWS = [Row("gloo", lambda: (failing(healthy(2)[0], "gloo", "some error"), healthy(2)[1]), ("host0",), together=True)]

LOOK_ALIKES = [
    LookAlike(
        "the store failed", lambda: (failing(healthy(2)[0], "store", "some error"), healthy(2)[1]), "store/failed"
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_where_every_address_was_reached_the_path_between_is_blamed() -> None:
    waited = "ended after 22.2 s: it did not return"
    refused = "Gloo connectFullMesh failed with timed out connecting: SO_ERROR: Connection refused"
    for error, words in (
        (waited, "every measured link carried data"),
        (refused, "an interface that every other node reaches"),
    ):
        (root,) = judged(*(failing(one, "gloo", error) for one in healthy(2))).roots
        assert root.check == CHECK and any(words in fix.text for fix in root.fixes), root.fixes
    a, b = cut([(1, 0)], 2)
    assert not any("every measured link" in fix.text for one in judged(a, b).findings for fix in one.fixes)
