"""gpu/driver-slow: what it finds, and what it leaves alone."""

from __future__ import annotations

from typing import Any

from distdoctor.model.facts import NodeFacts
from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import one

CHECK = "gpu/driver-slow"


def slow(
    persistence: bool | None = False, driver: float = 9.0, cuda: float = 8.0, **more: Any
) -> tuple[NodeFacts, ...]:
    """A node whose driver answers after so many seconds, and where CUDA begins in so many."""
    devices = {n: {"persistence": persistence} for n in range(8)}
    return one(devices=devices, driver={"seconds": driver}, torch={"started": cuda}, **more)


ROWS = [Row("nobody keeps it ready", slow, ("host0",), severity="warn")]

LOOK_ALIKES = [
    LookAlike("it is kept ready, and the host is busy", lambda: slow(True)),
    LookAlike("not known", lambda: slow(None)),
    LookAlike("CUDA begins at once", lambda: slow(cuda=0.4)),
    LookAlike("only CUDA is slow, from a disk that is", lambda: slow(driver=0.3)),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
