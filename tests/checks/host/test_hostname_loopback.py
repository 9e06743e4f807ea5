"""host/hostname-loopback: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import StageFacts
from tests.checks.row import BOTH, Facts, LookAlike, Row, found, left_alone
from tests.clusters.gpus import nccl_only
from tests.clusters.odd import named_master
from tests.facts_builder import healthy, loopback_name

CHECK = "host/hostname-loopback"


def nccl_loopback() -> Facts:
    return tuple(nccl_only(loopback_name(one)) for one in healthy(2))


def nccl_loopback_skipped() -> Facts:
    return tuple(replace(one, stages=(*one.stages, StageFacts("gloo", "skipped"))) for one in nccl_loopback())


ROWS = [
    Row("nccl only", nccl_loopback, BOTH, "warn", together=True),
    Row("nccl only, gloo skipped", nccl_loopback_skipped, BOTH, "warn", together=True),
]

LOOK_ALIKES = [LookAlike("GLOO_SOCKET_IFNAME is right", named_master)]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
