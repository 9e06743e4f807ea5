"""host/engine-port-ephemeral: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import Cure, LookAlike, Row, cured, found, left_alone
from tests.clusters.engines import API, RPC, engine, moved, with_range

CHECK = "host/engine-port-ephemeral"

ROWS = [
    Row("VLLM_PORT 40000", lambda: with_range(*engine(nodes=1, VLLM_PORT="40000")), ("host0",), "warn", together=True),
    Row("--port 45000", lambda: with_range(*engine(moved(API, 45000))), ("host0",), "warn", together=True),
    Row("the handshake's", lambda: with_range(*engine(moved(RPC, 50000))), ("host0",), "warn", together=True),
]
LOOK_ALIKES = [
    LookAlike("below the range", lambda: with_range(*engine(API, RPC, VLLM_PORT="21000"))),
    LookAlike("reserved", lambda: with_range(*engine(nodes=1, VLLM_PORT="40000"), reserved="40000-40019")),
    LookAlike("the engine's default", lambda: with_range(*engine(moved(API, 51216, given=False)))),
]
CURES = [
    Cure(
        "a port below the range",
        lambda: with_range(*engine(nodes=1, VLLM_PORT="40000")),
        {"host0": {"env": {"VLLM_PORT": "21000"}}},
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
