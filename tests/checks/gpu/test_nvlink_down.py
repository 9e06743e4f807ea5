"""gpu/nvlink-down: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import one, several

CHECK = "gpu/nvlink-down"


def of(name: str) -> Facts:
    """8 of this model, without NVSwitches; number 5 has no link up."""
    return one(devices={n: {"name": name, "fabric": "", "links": (n != 5,) * 12} for n in range(8)})


def two_nodes(*up: int) -> Facts:
    """Nodes of such modules; so many links of each of a node's are up."""
    model = {"name": "NVIDIA A100-SXM4-80GB", "fabric": ""}
    links = [tuple(number < count for number in range(12)) for count in up]
    return several(*({"devices": {n: {**model, "links": of_node} for n in range(8)}} for of_node in links))


ROWS = [
    Row("two of one", lambda: one(devices={5: {"links": (False, False, *[True] * 16)}}), ("host0",), severity="warn"),
    Row(
        "says the fabric", lambda: one(devices={5: {"fabric_health": ("less bandwidth",)}}), ("host0",), severity="warn"
    ),
    Row("all of one, on NVSwitches", lambda: one(devices={5: {"links": (False,) * 18}}), ("host0",), severity="warn"),
    Row("all of one module", lambda: of("NVIDIA A100-SXM4-80GB"), ("host0",), severity="warn"),
    Row("all of one of two nodes", lambda: two_nodes(0, 12), ("host0",), severity="warn", together=True),
    Row("trained anew", lambda: one(devices={5: {"link_recoveries": 3}}), ("host0",), severity="warn"),
]

LOOK_ALIKES = [
    LookAlike("none of any, as where NVLink is turned off", lambda: two_nodes(0, 0)),
    LookAlike("all were trained anew", lambda: one(devices={n: {"link_recoveries": n + 1} for n in range(8)})),
    LookAlike("not counted", lambda: one(devices={5: {"link_recoveries": None}})),
    LookAlike("none has any", lambda: one(devices={n: {"links": ()} for n in range(8)})),
    LookAlike("one card is not bridged", lambda: of("NVIDIA H100 PCIe")),
    LookAlike("bridged in pairs", lambda: one(devices={n: {"links": (True,) * 4} for n in range(4)})),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
