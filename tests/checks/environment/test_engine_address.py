"""environment/engine-address: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import BOTH, Cure, LookAlike, Row, cured, found, left_alone
from tests.clusters.engines import API, EC, MOONCAKE, NIXL, engine
from tests.facts_builder import address

CHECK = "environment/engine-address"

ROWS = [
    Row("VLLM_HOST_IP is loopback", lambda: engine(API, VLLM_HOST_IP="127.0.0.1"), BOTH, together=True),
    Row(
        "SGLANG_HOST_IP is 0.0.0.0",
        lambda: engine(kind="SGLang", by="--dist-init-addr", SGLANG_HOST_IP="0.0.0.0"),
        BOTH,
        together=True,
    ),
    Row("NIXL without a host, 2 nodes", lambda: engine(API, NIXL), BOTH[:1], together=True),
    Row("NIXL without a host, 1 node", lambda: engine(API, NIXL, nodes=1), BOTH[:1], "warn", together=True),
    Row("the EC connector without a host", lambda: engine(API, EC), BOTH[:1], together=True),
    Row("Mooncake", lambda: engine(MOONCAKE, nodes=1, VLLM_HOST_IP="127.0.0.1"), BOTH[:1], "warn", together=True),
    Row(
        "NIXL at localhost",
        lambda: engine(NIXL, nodes=1, VLLM_NIXL_SIDE_CHANNEL_HOST="localhost"),
        BOTH[:1],
        "warn",
        together=True,
    ),
]
LOOK_ALIKES = [
    LookAlike("a name", lambda: engine(API, VLLM_HOST_IP="host0")),
    LookAlike("one node", lambda: engine(API, nodes=1, VLLM_HOST_IP="127.0.0.1")),
    LookAlike("NIXL at this node", lambda: engine(API, NIXL, nodes=1, VLLM_NIXL_SIDE_CHANNEL_HOST=address(0))),
    LookAlike("EC at this node", lambda: engine(API, EC, nodes=1, VLLM_EC_SIDE_CHANNEL_HOST=address(0))),
    LookAlike("Mooncake by the route", lambda: engine(MOONCAKE, nodes=1)),
    LookAlike("no connector", lambda: engine(API)),
]
CURES = [
    Cure(
        "its own address",
        lambda: engine(API, VLLM_HOST_IP="127.0.0.1"),
        {name: {"env": {"VLLM_HOST_IP": address(number)}} for number, name in enumerate(BOTH)},
        only=True,
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
