"""host/master-port-ephemeral: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distdoctor.model.facts import RankFacts
from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, found, left_alone, on_each
from tests.clusters.limits import limited
from tests.facts_builder import healthy, judged, with_plan, with_variables

CHECK = "host/master-port-ephemeral"


def ephemeral(port: int, **changes: Any) -> Facts:
    facts = (with_plan(one, master_port=port, sources={"master_port": "--master-port"}) for one in healthy(2))
    return tuple(limited(one, **changes) for one in facts)


def reserved() -> Facts:
    return ephemeral(40000, reserved_ports="8080,39990-40010")


def torchruns_port() -> Facts:
    """A free port that torchrun's agent picked, or that it hosts itself."""
    a, b = ephemeral(40000)
    ranks = [
        with_plan(one, started="rank", rank=n, sources={"master_port": "MASTER_PORT"}) for n, one in enumerate((a, b))
    ]
    return tuple(
        replace(with_variables(one, TORCHELASTIC_RUN_ID="none"), ranks=(RankFacts(n, 0, stages=one.ranks[0].stages),))
        for n, one in enumerate(ranks)
    )


ROWS = [Row("port 40000", lambda: ephemeral(40000), ("host0",), "warn", together=True)]

LOOK_ALIKES = [
    LookAlike("MASTER_PORT reserved", reserved),
    LookAlike("MASTER_PORT of torchrun", torchruns_port),
    LookAlike(
        "default port in a wide range", lambda: tuple(limited(one, port_range=(1024, 65535)) for one in healthy(2))
    ),
]

CURES = [Cure("a port below the range", lambda: ephemeral(40000), on_each(BOTH, {"flags": {"--master-port": "29500"}}))]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_a_reserved_list_is_added_to() -> None:
    (root,) = judged(*ephemeral(40000, reserved_ports="8080")).roots
    assert root.fixes[-1].commands == ("sysctl -w net.ipv4.ip_local_reserved_ports=8080,40000",)
