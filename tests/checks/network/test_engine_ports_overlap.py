"""network/engine-ports-overlap: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.plan import EnginePort
from tests.checks.row import Cure, LookAlike, Row, cured, found, left_alone
from tests.clusters.engines import API, EC, RPC, engine, moved

CHECK = "network/engine-ports-overlap"
HTTP, ZMQ = EnginePort(5001, "--port", "HTTP server", True), EnginePort(5001, "--dist-init-addr", "engine (ZMQ)", True)

PINNED = [EnginePort(7000, "--nccl-port", f"the store of replica {number}", True) for number in (0, 1)]

ROWS = [
    Row(
        "one EC side channel for two ranks",
        lambda: engine(EC, EC, nodes=1, VLLM_EC_SIDE_CHANNEL_HOST="host0"),
        ("host0",),
        together=True,
    ),
    Row("--nccl-port of two replicas", lambda: engine(*PINNED, nodes=1, kind="SGLang"), ("host0",), together=True),
    Row("--port behind --dist-init-addr", lambda: engine(HTTP, ZMQ, kind="SGLang"), ("host0",), together=True),
    Row("--port is the store's", lambda: engine(moved(API, 29501)), ("host0",), together=True),
    Row("VLLM_PORT below the store's", lambda: engine(API, VLLM_PORT="29495"), ("host0",), "warn", together=True),
]
LOOK_ALIKES = [
    LookAlike("far apart", lambda: engine(API, VLLM_PORT="21000")),
    LookAlike("VLLM_PORT above", lambda: engine(API, VLLM_PORT="29502")),
    LookAlike("the handshake is no store", lambda: engine(API, RPC, port=29550, by="--data-parallel-rpc-port")),
    LookAlike("one node has no store on a port", lambda: engine(moved(API, 29501), nodes=1)),
]
CURES = [
    Cure(
        "no pinned port", lambda: engine(*PINNED, nodes=1, kind="SGLang"), {"host0": {"flags": {"--nccl-port": None}}}
    ),
    Cure("the HTTP port", lambda: engine(HTTP, ZMQ, kind="SGLang"), {"host0": {"flags": {"--port": "6001"}}}),
    Cure("room above", lambda: engine(API, VLLM_PORT="29495"), {"host0": {"env": {"VLLM_PORT": "29395"}}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
