"""host/hostname-unresolvable: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Resolution
from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.gpus import nccl_only
from tests.clusters.odd import on_one_host
from tests.facts_builder import healthy, with_host

CHECK = "host/hostname-unresolvable"


def nccl_unresolvable() -> Facts:
    a, b = healthy(2)
    return nccl_only(a), nccl_only(with_host(b, own_name=Resolution("host1", error="unknown", timed_out=True)))


ROWS = [Row("nccl only, unknown", nccl_unresolvable, ("host1",), "warn", together=True)]

LOOK_ALIKES = [
    LookAlike(
        "nodes on one host",
        lambda: tuple(
            with_host(one, own_name=Resolution("host0", error="Name or service not known")) for one in on_one_host(2)
        ),
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
