"""host/memory-limit: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.limits import MIB, on
from tests.facts_builder import with_identity

CHECK = "host/memory-limit"


def memory(limit: int | None, used: int | None = 40, torch: int | None = 180) -> Facts:
    """Of node 1, in MiB; it has two ranks."""
    most, already, each = (None if size is None else size * MIB for size in (limit, used, torch))
    zero, one = on((1,), memory=most, memory_used=already)
    return zero, with_identity(one, torch_memory=each)


ROWS = [
    Row("less than the ranks take", lambda: memory(399), ("host1",), together=True),
    Row("little more", lambda: memory(570), ("host1",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("enough", lambda: memory(600)),
    LookAlike("no limit", lambda: memory(None)),
    LookAlike("what is used is not known", lambda: memory(300, used=None)),
    LookAlike("torch was not imported", lambda: memory(300, torch=None)),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
