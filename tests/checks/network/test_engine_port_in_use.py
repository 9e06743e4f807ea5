"""network/engine-port-in-use: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.plan import EnginePort
from tests.checks.row import Cure, LookAlike, Row, cured, found, left_alone
from tests.clusters.engines import API, NIXL, RPC, engine, taken

CHECK = "network/engine-port-in-use"
ZMQ = EnginePort(5003, "--dist-init-addr", "RPC (ZMQ)", True)

ROWS = [
    Row("the API server's", lambda: taken(*engine(API)), ("host0",), together=True),
    Row("of the handshake, on one node", lambda: taken(*engine(RPC, nodes=1), port=29550), ("host0",), together=True),
    Row("behind --dist-init-addr", lambda: taken(*engine(ZMQ, kind="SGLang"), port=5003), ("host0",), together=True),
]
LOOK_ALIKES = [
    LookAlike("the ports are free", lambda: engine(API, NIXL, nodes=1, VLLM_NIXL_SIDE_CHANNEL_HOST="10.77.0.10")),
    LookAlike("a port that the line does not name", lambda: taken(*engine(API), port=9000)),
]
CURES = [
    Cure("another port", lambda: taken(*engine(API)), {"host0": {"flags": {"--port": "8001"}}}),
    Cure(
        "all derived ports",
        lambda: taken(*engine(ZMQ, kind="SGLang", port=5000, by="--dist-init-addr"), port=5003),
        {name: {"flags": {"--dist-init-addr": "10.77.0.10:6000"}} for name in ("host0", "host1")},
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
