"""store/libuv-missing: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Bind
from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, found, left_alone, on_each
from tests.facts_builder import PORT, failing, healthy, outside, with_network

CHECK = "store/libuv-missing"


def libuv() -> Facts:
    text = "DistStoreError: use_libuv was requested but PyTorch was build without libuv support, run with USE_LIBUV=0"
    a, b = healthy(2)
    return failing(a, "store", "ended after 3 s: another rank failed", killed=True), failing(b, "store", text)


def libuv_on_node_0() -> Facts:
    a, b = healthy(2, declared=True)
    text = "use_libuv was requested but PyTorch was build without libuv support, run with USE_LIBUV=0 to disable it."
    return with_network(outside(a, None), bind=Bind(False, PORT, 0, text), master_is_own=True), outside(b)


ROWS = [Row("no libuv", libuv, ("host1",), together=True), Row("no libuv on node 0", libuv_on_node_0, ("host0",))]

LOOK_ALIKES = [
    LookAlike("another error", lambda: (failing(healthy(2)[0], "store", "some error"), healthy(2)[1]), "store/failed")
]

CURES = [Cure("no libuv", libuv, on_each(BOTH, {"env": {"USE_LIBUV": "0"}}))]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
