"""host/cpu-affinity: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import Cure, LookAlike, Row, cured, found, left_alone
from tests.clusters.limits import limited, on
from tests.facts_builder import met, rank_node

CHECK = "host/cpu-affinity"

ROWS = [
    Row("one CPU of 64 for 2 ranks", lambda: on((1,), cpus=1, cpus_online=64), ("host1",), "warn", together=True),
    Row(
        "a tenth of a CPU's time",
        lambda: on((1,), cpus=8, cpus_online=8, cpu_quota=0.1),
        ("host1",),
        "warn",
        together=True,
    ),
    Row("on all", lambda: on((0, 1), cpus=1, cpus_online=2), ("host0", "host1"), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("as many as ranks", lambda: on((0, 1), cpus=2, cpus_online=64)),
    LookAlike("a limit above what the ranks need", lambda: on((1,), cpus=8, cpus_online=8, cpu_quota=2.5)),
    LookAlike("a machine that has only one", lambda: on((1,), cpus=1, cpus_online=1)),
    LookAlike(
        "a process for each rank, bound to a CPU of its own",
        lambda: met(*(limited(rank_node(f"host{rank}", rank), cpus=1, cpus_online=64) for rank in range(2))),
    ),
]

CURES = [
    Cure("taskset", lambda: on((1,), cpus=1, cpus_online=8), {"host1": {"commands": ("taskset -cp 0-7 $$",)}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
