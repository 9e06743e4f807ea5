"""host/cpu-affinity: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.limits import limited, on
from tests.facts_builder import met, rank_node, with_identity, with_variables

CHECK = "host/cpu-affinity"


def bound(cpus: int, **variables: str) -> Facts:
    """On host1 a process has so many CPUs of 8 once torch is imported."""
    zero, one = on((0, 1), cpus=8, cpus_online=8)
    return zero, with_variables(with_identity(one, torch_cpus=cpus), **variables)


ROWS = [
    Row("one CPU of 64 for 2 ranks", lambda: on((1,), cpus=1, cpus_online=64), ("host1",), "warn", together=True),
    Row(
        "a tenth of a CPU's time",
        lambda: on((1,), cpus=8, cpus_online=8, cpu_quota=0.1),
        ("host1",),
        "warn",
        together=True,
    ),
    Row("OpenMP's first place", lambda: bound(1, OMP_PROC_BIND="true"), ("host1",), "warn", together=True),
    Row("on all", lambda: on((0, 1), cpus=1, cpus_online=2), ("host0", "host1"), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("as many as ranks", lambda: on((0, 1), cpus=2, cpus_online=64)),
    LookAlike("a limit above what the ranks need", lambda: on((1,), cpus=8, cpus_online=8, cpu_quota=2.5)),
    LookAlike("OpenMP's places are large enough", lambda: bound(4, OMP_PLACES="sockets")),
    LookAlike("nothing is bound", lambda: bound(8, OMP_PROC_BIND="false")),
    LookAlike("bound by something else, as torch's own code may", lambda: bound(1)),
    LookAlike("a machine that has only one", lambda: on((1,), cpus=1, cpus_online=1)),
    LookAlike(
        "a process for each rank, bound to a CPU of its own",
        lambda: met(*(limited(rank_node(f"host{rank}", rank), cpus=1, cpus_online=64) for rank in range(2))),
    ),
]

CURES = [
    Cure("taskset", lambda: on((1,), cpus=1, cpus_online=8), {"host1": {"commands": ("taskset -cp 0-7 $$",)}}),
    Cure(
        "one CPU in a job of SLURM",
        lambda: tuple(with_variables(f, SLURM_JOB_NODELIST="host[0-1]") for f in on((1,), cpus=1, cpus_online=8)),
        {"host1": {"env": {"SRUN_CPUS_PER_TASK": "2", "SLURM_CPU_BIND": "none"}}},
    ),
    Cure(
        "OpenMP in a job of SLURM",
        lambda: bound(1, OMP_PROC_BIND="true", SLURM_JOB_NODELIST="host[0-1]"),
        {"host1": {"env": {"OMP_PROC_BIND": None}}},
    ),
    Cure("OpenMP", lambda: bound(1, GOMP_CPU_AFFINITY="0"), {"host1": {"env": {"GOMP_CPU_AFFINITY": None}}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
